import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { findProgram } from './find-program.js';

const run = promisify(execFile);

const LIMIT_SECONDS = 300;

export interface AptInstallation {
  readonly package: string;
  /** The program that is needed. */
  readonly program: string;
  /** The service that comes with the package, if any. It is started neither now nor at the next boot. */
  readonly service?: string;
}

/** Whether `installWithApt` may be tried: as root on Debian, Ubuntu and similar systems. */
export function mayInstallWithApt(): boolean {
  return process.getuid?.() === 0 && findProgram('apt-get') !== undefined;
}

/**
 * Installs a package of which only the program is needed, after printing one line to standard error.
 *
 * @throws Error when apt-get fails or takes longer than five minutes.
 */
export async function installWithApt(wanted: AptInstallation): Promise<void> {
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
    ${disableService(wanted)}`;
}

function disableService({ service }: AptInstallation): string {
  if (service === undefined) return '';
  return `if [ -d /run/systemd/system ]; then systemctl disable --now ${service}; fi`;
}
