import { describe, expect, it } from '@jest/globals';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readDocument, ROOT, tablesBelow } from './markdown.js';

/** What is no place for a reader to look for something. */
const IGNORED =
  /(^|\/)(node_modules|dist|sql|src|scripts\/.+|test\/.+\/.+|docs\/api|docs\/.+\/.+)$/;

describe('the map in CONTRIBUTING.md', () => {
  const places = mapped();

  it('names places that are there', () => {
    expect(places.length).toBeGreaterThan(40);
    expect(places.filter((place) => !existsSync(join(ROOT, place)))).toEqual([]);
  });

  it('names every room of the library, every application, every tool and every folder of tests', () => {
    const folders = [
      ...['libs', 'apps', 'tools', 'test', 'docs'].flatMap((top) => foldersIn(top)),
      ...foldersIn('libs/nestjs-locked/src').flatMap((room) => [room, ...foldersIn(room)]),
    ];
    expect(folders.filter((it) => !IGNORED.test(it) && !places.includes(it))).toEqual([]);
  });
});

it('CONTRIBUTING.md names what keeps a promise as the code does', () => {
  const [rows = []] = tablesBelow('Where promises are kept', readDocument('CONTRIBUTING.md'));
  const names = rows.flatMap(([, cell = '']) => cell.match(/\w+/g) ?? []);
  expect(names.length).toBeGreaterThan(10);

  const src = join(ROOT, 'libs/nestjs-locked/src');
  const sources = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => readFileSync(join(src, file), 'utf8'));
  const isDefined = (name: string): boolean => {
    const definition = new RegExp(`^export (?:class|const) ${name}\\b|^const ${name}\\b`, 'm');
    return sources.some((source) => definition.test(source));
  };
  expect(names.filter((name) => !isDefined(name))).toEqual([]);
});

describe.each([
  { page: 'the engine', folder: 'libs/nestjs-locked/src/core', files: 50, handled: 8 },
  { page: 'the store on Redis', folder: 'libs/nestjs-locked/src/redis', files: 45, handled: 5 },
  { page: 'transactions', folder: 'libs/nestjs-locked/src/transactions', files: 35, handled: 6 },
])('the page of $page', ({ folder, ...atLeast }) => {
  const { text } = readDocument(`${folder}/README.md`);

  it('leads to every file of its rooms', () => {
    const files = readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .map((file) => file.replaceAll('\\', '/'))

      .filter((file) => file.endsWith('.ts') && file !== 'index.ts');
    expect(files.length).toBeGreaterThan(atLeast.files);
    expect(files.filter((file) => !text.includes(`](${file})`))).toEqual([]);
  });

  it('names functions that are in the files that it names', () => {
    const handled = [
      ...text.matchAll(/((?:`[#\w]+`(?:, )?)+) in ((?:\[[\w-]+\]\([\w/.-]+\)(?: and )?)+)/g),
    ];
    expect(handled.length).toBeGreaterThan(atLeast.handled);
    for (const [, names = '', links = ''] of handled) {
      for (const [, file = ''] of links.matchAll(/\(([^)]+)\)/g)) {
        const source = readFileSync(join(ROOT, folder, file), 'utf8');
        for (const [, name = ''] of names.matchAll(/`([^`]+)`/g)) expect(source).toContain(name);
      }
    }
  });
});

/** A file that is longer than most says in its head why: it is one thing. */
it('files of the library have at most 300 lines, or say why not', () => {
  const src = join(ROOT, 'libs/nestjs-locked/src');
  const long = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .filter((file) => {
      const text = readFileSync(join(src, file), 'utf8');
      return text.trimEnd().split('\n').length > 300 && !text.includes('It is one file because');
    });
  expect(long).toEqual([]);
});

/** The indented paths of the map, as paths of the repository. */
function mapped(): string[] {
  const [, map = ''] =
    /^## Where things are\n+```\n([^]*?)```/m.exec(readDocument('CONTRIBUTING.md').text) ?? [];
  const parents: string[] = [];
  return map
    .trimEnd()
    .split('\n')
    .map((line) => {
      const [, indent = '', place = ''] = /^( *)([\w./-]+?)\/? /.exec(`${line} `) ?? [];
      const depth = indent.length / 2;
      parents.length = depth;
      parents[depth] = place;
      return parents.join('/');
    });
}

function foldersIn(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => `${folder}/${name}`);
}
