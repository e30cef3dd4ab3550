import { describe, expect, it } from '@jest/globals';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { gzipSync } from 'node:zlib';
import {
  CODEMOD_FILE,
  codemodJson,
  PACKAGE_FILE,
  packageJson,
  PLAYGROUND_FILES,
  readme,
  README_FILE,
  SECURITY_FILE,
  securityPolicy,
  withPlayground,
} from '../../scripts/package/published-readme.mjs';
import { LIBRARY } from '../api/entry-points.js';
import { readDocument, ROOT } from '../api/markdown.js';
import { runCommand, UNGUARDED } from '../support/run-command.js';

interface Manifest {
  readonly repository: { readonly url: string; readonly directory: string };
  readonly homepage: string;
  readonly bugs: string;
  readonly publishConfig: object;
}

describe('the README that npm shows', () => {
  const manifest = JSON.parse(readFileSync(PACKAGE_FILE, 'utf8')) as Manifest;
  const published = readFileSync(README_FILE, 'utf8');
  const address = manifest.repository.url.replace(/^git\+|\.git$/g, '');

  it('is the one that `npm run package:links` writes from README.md and `repository.url`', async () => {
    expect(published).toBe(await readme());
    expect(readFileSync(PACKAGE_FILE, 'utf8')).toBe(await packageJson());
    expect(readFileSync(CODEMOD_FILE, 'utf8')).toBe(await codemodJson());
    const policy = readFileSync(SECURITY_FILE, 'utf8');
    expect(policy).toBe(await securityPolicy());
    expect(policy).toContain(`(${address}/security/advisories/new)`);
    expect(manifest).toMatchObject({ homepage: `${address}#readme`, bugs: `${address}/issues` });
  });

  it('links, like the README of the playground, to that of this repository in the browser', async () => {
    const name = new URL(address).pathname.slice(1);
    for (const file of PLAYGROUND_FILES) {
      const text = readFileSync(file, 'utf8');
      expect(text).toBe(await withPlayground(file));
      expect(text).toContain(
        `https://stackblitz.com/github/${name}/tree/main/examples/playground)`,
      );
    }
  });

  it('has the whole README, and no link that is dead outside the repository', () => {
    const headings = (text: string): string[] => text.match(/^#+ .+$/gm) ?? [];
    expect(headings(published)).toEqual(headings(readDocument('README.md').text));

    const links = [...published.matchAll(/\]\(([^()\s]+)\)/g)].map(([, link = '']) => link);
    expect(links.length).toBeGreaterThan(10);
    expect(links.filter((link) => !/^(https:\/\/|#)/.test(link))).toEqual([]);
    const files = links.flatMap((link) => {
      const [, path] = link.split(new RegExp(`^${address}/(?:blob|raw)/HEAD/`));
      return path === undefined ? [] : [path.split('#')[0] ?? ''];
    });
    expect(files.length).toBeGreaterThan(10);
    expect(files.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });

  it('names its folder in the repository, and can be published with provenance', () => {
    expect(manifest.repository.directory).toBe('libs/nestjs-locked');
    expect(manifest.publishConfig).toEqual({ access: 'public', provenance: true });
  });
});

/** Sizes change all the time, so the page needs to be only about right. */
const STATIC_IMPORT = /(?:from |import |require\()['"](\.[^'"]+)['"]/g;
/** Also what is loaded when a lock module is made. */
const ANY_IMPORT = /(?:from |import |require\(|import\()['"](\.[^'"]+)['"]/g;

it('docs/installation.md states about the right size', async () => {
  const pack = ['pack', '--json', '--dry-run', '--ignore-scripts'];
  const { stdout } = await runCommand('npm', pack, LIBRARY, UNGUARDED);
  const [packed] = JSON.parse(stdout) as [{ size: number; unpackedSize: number }];
  const root = join(LIBRARY, 'dist/index.js');
  const atOnce = [...loadedBy(root, STATIC_IMPORT).values()].join('\n');
  const loaded = [...loadedBy(root, ANY_IMPORT).values()].join('\n');

  const { text } = readDocument('docs/installation.md');
  const stated =
    /([\d.]+) MB to download, ([\d.]+) MB unpacked.*?(\d+) kB of JavaScript, (\d+) kB.*?(\d+) kB of it/s;
  const [, ...numbers] = (stated.exec(text) ?? []).map(Number);
  const actual = [packed.size / 1e6, packed.unpackedSize / 1e6];
  actual.push(loaded.length / 1e3, gzipSync(loaded).length / 1e3, atOnce.length / 1e3);
  expect(numbers).toHaveLength(5);
  for (const [n, size] of actual.entries()) {
    const ratio = (numbers[n] ?? 0) / size;
    expect([n, ratio > 0.7 && ratio < 1.4]).toEqual([n, true]);
  }
});

/** The text of a module and of all that it imports from its own package. */
function loadedBy(
  file: string,
  imports: RegExp,
  found = new Map<string, string>(),
): Map<string, string> {
  if (found.has(file)) return found;
  const text = readFileSync(file, 'utf8');
  found.set(file, text);
  for (const [, path = ''] of text.matchAll(imports)) {
    loadedBy(join(dirname(file), path), imports, found);
  }
  return found;
}
