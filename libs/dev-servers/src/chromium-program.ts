import { installWithApt, mayInstallWithApt } from './apt.js';
import { findProgram } from './find-program.js';

/** Chromium on this machine, or undefined; nothing is installed. */
export function findChromium(): string | undefined {
  return findProgram('chromium', 'chromium-browser', 'google-chrome');
}

/**
 * Chromium on this machine. When there is none, root on Debian gets it from apt, after one line on
 * standard error.
 *
 * @throws Error naming the way to get one when there is none and none could be installed.
 */
export async function findOrInstallChromium(): Promise<string> {
  const wayOut = 'Install Chromium (Debian: apt-get install chromium).';
  if (findChromium() === undefined && mayInstallWithApt()) {
    await installWithApt({ package: 'chromium', program: 'chromium' }).catch((error: unknown) => {
      throw new Error(`apt-get could not install chromium. ${wayOut}`, { cause: error });
    });
  }
  const found = findChromium();
  if (found !== undefined) return found;
  throw new Error(`No chromium is on PATH. ${wayOut}`);
}
