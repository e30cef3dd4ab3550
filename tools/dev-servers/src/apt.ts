import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { findProgram } from './find-program.js';

const run = promisify(execFile);

const LIMIT_SECONDS = 300;

/** A package of which only one program is needed. It is installed after one line on standard error. */
interface AptInstallation {
  readonly package: string;
  /** The program that is needed. */
  readonly program: string;
  /** The service that comes with the package, if any. It is started neither now nor at the next boot. */
  readonly service?: string;
}

export interface WantedProgram<Found> extends AptInstallation {
  /** @returns undefined if it is not installed */
  readonly find: () => Found | undefined;
  /** What is wrong if it is not installed: a sentence without its full stop. */
  readonly missing: string;
  /** How to get one. */
  readonly waysOut: string;
}

/** What is found, which is installed if need be, when this is root on Debian, Ubuntu or a similar system. */
export async function findOrInstall<Found>(wanted: WantedProgram<Found>): Promise<Found> {
  const found = wanted.find();
  if (found !== undefined) return found;
  const { missing, waysOut } = wanted;
  if (process.getuid?.() !== 0 || findProgram('apt-get') === undefined) {
    throw new Error(`${missing}. ${waysOut}`);
  }
  await install(wanted).catch((cause: unknown) => {
    throw new Error(`apt-get could not install ${wanted.package}. ${waysOut}`, { cause });
  });
  const installed = wanted.find();
  if (installed !== undefined) return installed;
  throw new Error(`${missing}, although apt-get installed ${wanted.package}. ${waysOut}`);
}

/** @throws Error when apt-get fails or takes longer than five minutes. */
async function install(wanted: AptInstallation): Promise<void> {
  process.stderr.write(
    `${wanted.program} is not installed: running apt-get install ${wanted.package}\n`,
  );
  // Two test processes may get here at the same time, but apt allows only one, so they share a lock; any common folder
  // will do. `timeout` also ends apt, whereas execFile would end only flock.
  await run(
    'flock',
    ['/var/lib/dpkg', 'timeout', String(LIMIT_SECONDS), 'sh', '-ec', installScript(wanted)],
    { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }, maxBuffer: 1e8 },
  );
}

/** A policy-rc.d that exits with 101 tells Debian not to start any service. */
function installScript(wanted: AptInstallation): string {
  const { service } = wanted;
  return `
    command -v ${wanted.program} >/dev/null && exit
    policy=/usr/sbin/policy-rc.d
    if [ ! -e $policy ]; then
      trap 'rm -f $policy' EXIT
      trap 'exit 1' HUP INT TERM
      printf '#!/bin/sh\\nexit 101\\n' >$policy
      chmod 755 $policy
    fi
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends ${wanted.package}
    ${service ? `if [ -d /run/systemd/system ]; then systemctl disable --now ${service}; fi` : ''}`;
}
