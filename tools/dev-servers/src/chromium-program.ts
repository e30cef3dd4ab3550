import { installWithApt, mayInstallWithApt } from './apt.js';
import { findProgram } from './find-program.js';

/** Chromium on this machine, or undefined. Nothing is installed. */
export function findChromium(): string | undefined {
  return findProgram('chromium', 'chromium-browser', 'google-chrome');
}

/**
 * Chromium on this machine. If there is none, it is installed with apt when this is root on Debian, after one line on
 * standard error.
 *
 * @throws Error that names the way to get one, if there is none and none could be installed.
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
