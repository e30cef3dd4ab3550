import { relative } from 'node:path';
import type { Migration } from './migrate.js';
import type { OldLibrary } from './old-names.js';

/** What is different, wherever a lock was replaced. */
const DIFFERENT: Readonly<Record<OldLibrary, readonly string[]>> = {
  murlock: [
    'The release time is no limit any more: a lock lasts as long as the method, and is renewed. If the process dies, the key is free after leaseMs (30 s by default).',
    'A missing value in a key is refused (LOCK_KEY_INVALID), and values are escaped in the templates of @Locked.',
    'A method may call another one that locks the same key.',
  ],
  redlock: [
    'The duration is no limit any more: a lock is renewed until it is released. If the process dies, the key is free after leaseMs (30 s by default).',
    'A lost lock does not make the call fail: use lock.assertHeld() and lock.signal. A release that fails does not either.',
    'A lock of acquire() is not found by nested calls and transactions: use withLock() for these.',
  ],
};

const ALWAYS = [
  'Instances with the old lock and instances with the new one do not exclude each other. Take both locks for one release: docs/migration.md of nestjs-locked shows how.',
];

/** The text for the terminal: what happened to each place, and what else there is to know. */
export function report({ files, findings }: Migration, folder: string, isWritten: boolean): string {
  if (findings.length === 0) return 'There is no use of murlock or redlock.';
  const lines = findings.map(({ outcome, file, line, text }) => {
    const shown = text.replaceAll(/\s+/g, ' ');
    return `${outcome.padEnd(8)} ${relative(folder, file)}:${line}  ${shown}`;
  });
  const count = (wanted: string): number =>
    findings.filter(({ outcome }) => outcome === wanted).length;
  const mixed =
    files.size > 0 && count('left') > 0
      ? [
          'What was left still takes the old lock, which does not exclude the new one: finish it before you deploy.',
        ]
      : [];
  const libraries = [...new Set(findings.map(({ library }) => library))].sort();
  const different = [...libraries.flatMap((library) => DIFFERENT[library]), ...ALWAYS, ...mixed];
  const verb = isWritten ? 'changed' : 'would change (--write changes them)';
  return [
    ...lines,
    '',
    ...(files.size > 0
      ? ['What is different now:', ...different.map((text) => `- ${text}`), '']
      : []),
    `${files.size} ${files.size === 1 ? 'file' : 'files'} ${verb}: ${count('changed')} changed, ${count('check')} to check, ${count('left')} left to you.`,
  ].join('\n');
}
