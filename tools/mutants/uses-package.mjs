import { readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** The library by its name, or another process, which may load it by its name. */
const PACKAGE = /['"](nestjs-locked|(node:)?(child_process|worker_threads|cluster))\b/;
const IMPORT = /(?:from|import)\s*\(?\s*['"](\.{1,2}\/[^'"]+)['"]/g;

/** Whether these specs, or what they import of `test/`, use the library as it is published: they need the bundles. */
export function usesPackage(root, specs) {
  const seen = new Set();
  const uses = (file) => {
    if (seen.has(file)) return false;
    seen.add(file);
    const text = readFileSync(file, 'utf8');
    if (PACKAGE.test(text)) return true;
    return [...text.matchAll(IMPORT)]
      .map(([, path]) => join(dirname(file), path))
      .filter((path) => !path.startsWith(join(root, 'libs')))
      .some((path) => {
        const found = [path, path.replace(/\.js$/, '.ts')].find(isFile);
        return found === undefined || uses(found);
      });
  };
  return specs.map((spec) => join(root, spec)).some((spec) => !isFile(spec) || uses(spec));
}

function isFile(path) {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
