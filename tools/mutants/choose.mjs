/** The engine, the scripts, and what is between them: the simulator runs these. */
const SIMULATED = /\/src\/(core\/|redis\/(scripts\/|[\w-]+\.ts))/;

/**
 * The mutants that the options of the command line mean.
 *
 * @param {import('./table.mjs').Mutant[]} table
 * @param {{ only: string[], file: string[], shard: string, torture: boolean, simulate: string }} options
 * @throws RangeError for a share that does not exist
 */
export function choose(table, { only, file: files, shard, torture, simulate }) {
  const [part, parts] = shard.split('/').map(Number);
  if (!(part >= 1 && part <= parts))
    throw new RangeError(`--shard ${shard}: write 1/3, 2/3 or 3/3`);
  const has = (words, text) => words.length === 0 || words.some((word) => text.includes(word));
  return table
    .filter(
      (mutant) =>
        has(only, `${mutant.rule}\n${mutant.change}`) &&
        has(files, mutant.file) &&
        (!torture || mutant.torture.length > 0) &&
        (simulate === '0' || SIMULATED.test(mutant.file)),
    )
    .filter((_, i) => i % parts === part - 1);
}
