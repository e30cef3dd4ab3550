/**
 * Installs MariaDB for the tests that use one, where it is missing and this user may: root on Debian or Ubuntu; no
 * package of npm brings its programs. Says so in one line and succeeds all the same when it cannot be had: those tests
 * skip.
 */
import { findOrInstallMariaDb, hasMariaDb } from 'dev-servers';

if (!hasMariaDb()) {
  await findOrInstallMariaDb().catch((error) => console.error(error.message));
}
