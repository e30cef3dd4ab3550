/** Whether the table fits the tree. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { assertIsProgram, fittingDeclarations, MutantError, mutate } from './mutate.mjs';

const LIBRARY = 'libs/nestjs-locked/src';

/**
 * What is wrong with these mutants: a change that does not fit its source, or a spec that does not exist.
 *
 * @returns {string[]}
 */
export function misfits(root, mutants) {
  return mutants.flatMap((mutant) => [
    ...mutant.specs
      .filter((spec) => !existsSync(join(root, spec)))
      .map((spec) => `${mutant.change}: there is no ${spec}; name the spec that sees it now`),
    ...changeMisfits(root, mutant),
  ]);
}

function changeMisfits(root, mutant) {
  const path = join(root, mutant.file);
  try {
    if (!existsSync(path)) throw new MutantError(`${mutant.change}: there is no ${mutant.file}`);
    assertIsProgram(mutate(readFileSync(path, 'utf8'), mutant), mutant);
    return [];
  } catch (error) {
    if (!(error instanceof MutantError)) throw error;
    const places = placesElsewhere(root, mutant);
    const advice = places.length === 0 ? '' : `; it would fit ${places.join(' and ')}`;
    return [error.message + advice];
  }
}

/** Code moves: declarations of other files that have the same name, or are the same member of another class. */
function placesElsewhere(root, mutant) {
  const member = mutant.in.split('.').at(-1);
  return readdirSync(join(root, LIBRARY), { recursive: true })
    .map((file) => `${LIBRARY}/${file}`)
    .filter((file) => file.endsWith('.ts') && file !== mutant.file)
    .flatMap((file) => {
      const source = readFileSync(join(root, file), 'utf8');
      return fittingDeclarations(source, file, mutant.from)
        .filter((name) => name.split('.').at(-1) === member)
        .map((name) => `${name} in ${file}`);
    });
}
