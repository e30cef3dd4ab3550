/**
 * The mutants that the options of the command line mean.
 *
 * @param {import('./table.mjs').Mutant[]} table
 * @param {{ only: string, file: string[], names: string[], shard: string, torture: boolean }} options
 * @throws RangeError for a name that no mutant has, and for a share that does not exist
 */
export function choose(table, { only, file: files, names, shard, torture }) {
  const [part, parts] = shard.split('/').map(Number);
  if (!(part >= 1 && part <= parts))
    throw new RangeError(`--shard ${shard}: write 1/3, 2/3 or 3/3`);
  const unknown = names.filter((name) => table.every((mutant) => mutant.name !== name));
  if (unknown.length > 0)
    throw new RangeError(
      `--names ${unknown.join(', ')}: no mutant has it; --only finds parts of names`,
    );
  return table
    .filter(
      (mutant) =>
        mutant.name.includes(only) &&
        (files.length === 0 || files.some((part) => mutant.file.includes(part))) &&
        (names.length === 0 || names.includes(mutant.name)) &&
        (!torture || mutant.torture.length > 0),
    )
    .filter((_, i) => i % parts === part - 1);
}
