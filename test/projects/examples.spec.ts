import { describe, expect, it } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readDocument, ROOT } from '../api/markdown.js';
import { runCommand, UNGUARDED } from '../support/run-command.js';

const EXAMPLE = join(ROOT, 'examples/testing');
const SPECS = ['app.module.spec.ts', 'stock.service.spec.ts'];

/** What both runners report with `--json`, of what is read here. */
interface Report {
  readonly testResults: readonly {
    readonly assertionResults: readonly { readonly title: string; readonly status: string }[];
  }[];
}

const RUNNERS = [
  {
    runner: 'jest',
    args: [
      ...['--disable-warning=ExperimentalWarning', '--experimental-vm-modules'],
      ...['node_modules/jest/bin/jest.js', '--json', '--config'],
      'examples/testing/jest/jest.config.mjs',
    ],
  },
  {
    runner: 'vitest',
    args: [
      ...['node_modules/vitest/vitest.mjs', 'run', '--reporter=json'],
      ...['--root', 'examples/testing/vitest'],
    ],
  },
];

describe('the example of tests', () => {
  it.each(RUNNERS)('passes with $runner', async ({ runner, args }) => {
    const { stdout, stderr } = await runCommand(process.execPath, args, ROOT, UNGUARDED);
    const report = (stdout.startsWith('{') ? JSON.parse(stdout) : stderr) as Report;
    const results = report.testResults.flatMap(({ assertionResults }) => assertionResults);
    expect(results.filter(({ status }) => status !== 'passed')).toEqual([]);
    const titles = SPECS.flatMap((file) => titlesIn(join(EXAMPLE, runner, file)));
    expect(results.map(({ title }) => title).sort()).toEqual(titles.sort());
    expect(titles.length).toBeGreaterThan(9);
  });

  it('is the same for both runners, apart from the import', () => {
    for (const file of SPECS) {
      const [jest, vitest] = ['jest', 'vitest'].map((runner) =>
        readFileSync(join(EXAMPLE, runner, file), 'utf8').replace(
          /^import .+ from '(@jest\/globals|vitest)';\n/m,
          '',
        ),
      );
      expect(vitest).toBe(jest);
    }
  });

  it('is where the snippets of docs/testing.md come from', () => {
    const { text } = readDocument('docs/testing.md');
    const snippets = [...text.matchAll(/^```ts from=(\S+)\n([^]*?)^```$/gm)];
    expect(snippets.length).toBeGreaterThan(5);
    for (const [, file = '', snippet = ''] of snippets) {
      const source = readFileSync(join(ROOT, file), 'utf8');
      expect(withoutLayout(source)).toContain(withoutLayout(snippet));
    }
  });
});

function titlesIn(file: string): string[] {
  return [...readFileSync(file, 'utf8').matchAll(/^ +it\('(.+)', /gm)].map(
    ([, title = '']) => title,
  );
}

/** The code without its layout: snippets are indented less than in their tests, and broken for narrower lines. */
function withoutLayout(code: string): string {
  return code.replaceAll(/\s+/g, '').replaceAll(/,(?=[)\]}])/g, '');
}
