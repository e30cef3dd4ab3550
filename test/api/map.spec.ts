import { describe, expect, it } from '@jest/globals';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readDocument, ROOT, tablesBelow } from './markdown.js';

describe('the map in CONTRIBUTING.md', () => {
  const places = mapped();

  it('names places that are there', () => {
    expect(places.length).toBeGreaterThan(40);
    expect(places.filter((place) => !existsSync(join(ROOT, place)))).toEqual([]);
  });
});

it('CONTRIBUTING.md names the code, the spec and the title of each promise as they are called', () => {
  const rows = promises();
  expect(rows.length).toBeGreaterThan(100);
  const places = rows.map(([, , cell = '', title = '']) => {
    const [spec = 'none'] = cell.match(/[\w/.-]+\.ts/) ?? [];
    return { path: join(ROOT, 'test', spec), title };
  });
  expect(places.filter(({ path }) => !existsSync(path))).toEqual([]);
  const isThere = ({ path, title }: (typeof places)[number]): boolean =>
    title !== '' && readFileSync(path, 'utf8').replaceAll("\\'", "'").includes(title);
  expect(places.filter((place) => !isThere(place))).toEqual([]);
  const names = rows.flatMap(([, cell = '']) => cell.match(/\w+/g) ?? []);
  expect(names.length).toBeGreaterThan(100);

  const src = join(ROOT, 'libs/nestjs-locked/src');
  const sources = readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => readFileSync(join(src, file), 'utf8'));
  const isDefined = (name: string): boolean => {
    const definition = new RegExp(
      `^(?:export )?(?:async )?(?:(?:abstract )?class|const|function) ${name}\\b|^  (?:async )?${name}\\(`,
      'm',
    );
    return sources.some((source) => definition.test(source));
  };
  expect(names.filter((name) => !isDefined(name))).toEqual([]);
});

describe.each([
  { page: 'the engine', folder: 'libs/nestjs-locked/src/core' },
  { page: 'the store on Redis', folder: 'libs/nestjs-locked/src/redis' },
  { page: 'transactions', folder: 'libs/nestjs-locked/src/transactions' },
])('the page of $page', ({ folder }) => {
  const { text } = readDocument(`${folder}/README.md`);

  it('names functions that exist in the files beside them', () => {
    const handled = [
      ...text.matchAll(/((?:`[#\w]+`(?:, )?)+) in ((?:\[[\w-]+\]\([\w/.-]+\)(?: and )?)+)/g),
    ];
    expect(handled).not.toEqual([]);
    for (const [, names = '', links = ''] of handled) {
      for (const [, file = ''] of links.matchAll(/\(([^)]+)\)/g)) {
        const source = readFileSync(join(ROOT, folder, file), 'utf8');
        for (const [, name = ''] of names.matchAll(/`([^`]+)`/g)) expect(source).toContain(name);
      }
    }
  });
});

/** The rows of all tables of the promises, one for each subject. */
function promises(): string[][] {
  const document = readDocument('CONTRIBUTING.md');
  const [, text = ''] = /^## Where promises are kept\n([^]*?)^## /m.exec(document.text) ?? [];
  const subjects = [...text.matchAll(/^### (.+)$/gm)].map(([, subject = '']) => subject);
  return subjects.flatMap((subject) => tablesBelow(subject, { ...document, text }).flat());
}

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
