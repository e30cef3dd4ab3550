/** Removes what `npm run build` makes, in every package: a source that was renamed leaves its old output behind. */
import { readdirSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

for (const group of ['libs', 'apps']) {
  const folder = fileURLToPath(new URL(`../${group}/`, import.meta.url));
  for (const name of namesIn(folder, 'isDirectory')) {
    const built = namesIn(folder + name, 'isFile').filter((file) => file.endsWith('.tsbuildinfo'));
    for (const path of ['dist', ...built]) {
      rmSync(`${folder}${name}/${path}`, { recursive: true, force: true });
    }
  }
}

function namesIn(folder, kind) {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry[kind]())
    .map(({ name }) => name);
}
