/**
 * Installs Chromium for the tests that look at the lab's report, where it is missing and this user may: root on Debian.
 * It comes from apt, because Playwright's own installer loads it from a server that not every network reaches.
 * Says so in one line and succeeds all the same when it cannot be had: those tests skip.
 */
import { findOrInstallChromium } from 'dev-servers';

await findOrInstallChromium().catch((error) => console.error(error.message));
