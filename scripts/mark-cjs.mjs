/** Marks the second build of nestjs-locked as CommonJS: the package itself is `"type": "module"`. */
import { writeFileSync } from 'node:fs';

const marker = new URL('../libs/nestjs-locked/dist/cjs/package.json', import.meta.url);
writeFileSync(marker, '{ "type": "commonjs" }\n');
