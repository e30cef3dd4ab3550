/**
 * Runs commitlint on the commits that the upstream branch has not, or on the last ten if there is no such branch:
 * commitlint by itself would also judge what was written before there was the rule, and fails without a history.
 */
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const RULE = 'commitlint.config.mjs';
const manifest = createRequire(import.meta.url).resolve('@commitlint/cli/package.json');
const commitlint = join(dirname(manifest), 'cli.js');

const commits = commitsToLint();
const refused = commits.filter((commit) => !isAccepted(git('log', '-1', '--format=%B', commit)));
console.log(`commitlint: ${commits.length} commits, ${refused.length} refused`);
process.exitCode = refused.length > 0 ? 1 : 0;

/** Only those that come after the rule: a branch that was begun before it and merged later is older. */
function commitsToLint() {
  if (git('rev-parse', '--is-shallow-repository') !== 'false') return [];
  const rule = git('log', '-1', '--diff-filter=A', '--format=%H', '--', RULE);
  if (rule === '') return [];
  const after = lines('rev-list', '--no-merges', '--ancestry-path', `${rule}..HEAD`);
  const upstream = git('rev-parse', '--verify', '--quiet', '@{upstream}');
  if (upstream === '') return after.slice(0, 10);
  const own = lines('rev-list', `${upstream}..HEAD`);
  return after.filter((commit) => own.includes(commit));
}

function isAccepted(message) {
  const options = { cwd: ROOT, input: message, stdio: ['pipe', 'inherit', 'inherit'] };
  return spawnSync(process.execPath, [commitlint], options).status === 0;
}

/** @returns what git answers, or an empty text where there is no git, no repository or nothing of this name */
function git(...args) {
  return spawnSync('git', args, { cwd: ROOT, encoding: 'utf8' }).stdout?.trim() ?? '';
}

function lines(...args) {
  return git(...args)
    .split('\n')
    .filter((line) => line !== '');
}
