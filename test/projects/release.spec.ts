import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { cpSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../api/markdown.js';
import { TemporaryProject } from '../api/temporary-project.js';
import { runCommand, UNGUARDED } from '../support/run-command.js';

const LIBRARY = 'libs/nestjs-locked';
const CODEMOD = 'libs/nestjs-locked-migrate';
const CHANGESET = join(ROOT, 'node_modules/@changesets/cli/bin.js');

describe('changeset version', () => {
  const project = new TemporaryProject();
  const read = (path: string): string => readFileSync(join(project.folder, path), 'utf8');
  const versionOf = (text: string): string => (JSON.parse(text) as { version: string }).version;
  const workspaces = readdirSync(join(ROOT, 'apps'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => `apps/${name}/package.json`);
  let before: string;

  beforeAll(async () => {
    const manifests = [
      'package.json',
      `${LIBRARY}/package.json`,
      `${CODEMOD}/package.json`,
      ...workspaces,
    ];
    for (const path of ['.changeset', `${LIBRARY}/CHANGELOG.md`, ...manifests]) {
      cpSync(join(ROOT, path), join(project.folder, path), { recursive: true });
    }
    project.write('.changeset/one-more.md', `---\n'nestjs-locked': patch\n---\n\nOne more.\n`);
    project.link('prettier');
    before = read(`${LIBRARY}/CHANGELOG.md`);
    const author = ['-c', 'user.name=Test', '-c', 'user.email=test@localhost'];
    for (const [program, ...args] of [
      ['git', 'init', '--quiet'],
      ['git', 'add', '.changeset'],
      ['git', ...author, 'commit', '--quiet', '--message', 'chore: all'],
      [process.execPath, CHANGESET, 'version'],
    ] as [string, ...string[]][]) {
      const { code, stdout, stderr } = await runCommand(program, args, project.folder, UNGUARDED);
      expect([args, code, stdout + stderr]).toEqual([args, 0, expect.anything()]);
    }
  });

  afterAll(() => project.remove());

  it('raises the version of the library, gives the codemod the same, and raises no other one', () => {
    const path = `${LIBRARY}/package.json`;
    expect(versionOf(read(path))).not.toBe(versionOf(readFileSync(join(ROOT, path), 'utf8')));
    expect(versionOf(read(`${CODEMOD}/package.json`))).toBe(versionOf(read(path)));
    for (const path of workspaces) expect(read(path)).toBe(readFileSync(join(ROOT, path), 'utf8'));
  });

  it('moves every changeset to the one changelog, below its heading', () => {
    expect(readdirSync(join(project.folder, '.changeset')).sort()).toEqual([
      'README.md',
      'config.json',
    ]);
    const [heading = '', ...rest] = before.split('\n');
    const text = read(`${LIBRARY}/CHANGELOG.md`);
    const version = versionOf(read(`${LIBRARY}/package.json`));
    expect(text.startsWith(`${heading}\n\n## ${version}\n`)).toBe(true);
    expect(text).toMatch(/^- [0-9a-f]{7}: One more\.$/m);
    expect(text.endsWith(rest.join('\n'))).toBe(true);
    expect(readdirSync(project.folder)).not.toContain('CHANGELOG.md');
  });
});

describe('npm pack', () => {
  const project = new TemporaryProject();
  const manifest = readFileSync(join(ROOT, LIBRARY, 'package.json'), 'utf8');

  beforeAll(() => {
    for (const path of [
      'scripts',
      'README.md',
      'SECURITY.md',
      '.prettierrc',
      'examples/playground/README.md',
      `${CODEMOD}/package.json`,
    ]) {
      cpSync(join(ROOT, path), join(project.folder, path), { recursive: true });
    }
    project.write(`${LIBRARY}/README.md`, '');
    // Packing builds first; what it then packs is no matter here.
    const scripts = { clean: 'node -e 0', build: 'node -e 0' };
    project.write('package.json', JSON.stringify({ private: true, scripts }));
    project.link('prettier');
  });

  afterAll(() => project.remove());

  /** The output of npm with this owner of the repository. */
  const check = async (owner: string, { withLinks }: { withLinks: boolean }) => {
    const url = `git+https://github.com/${owner}/nestjs-locked.git`;
    const { repository, ...others } = JSON.parse(manifest) as { repository: object };
    const text = { ...others, repository: { ...repository, url } };
    project.write(`${LIBRARY}/package.json`, JSON.stringify(text, null, 2) + '\n');
    if (withLinks) await project.node(['scripts/package-links.mjs']);
    const folder = join(project.folder, LIBRARY);
    const pack = ['pack', '--silent', '--dry-run'];
    const { code, stderr } = await runCommand('npm', pack, folder, UNGUARDED);
    return [code, stderr];
  };

  it('refuses the placeholder with one line that names the remedy', async () => {
    expect(await check('OWNER', { withLinks: true })).toEqual([
      1,
      'Cannot pack nestjs-locked: in libs/nestjs-locked/package.json, repository.url has the placeholder OWNER: ' +
        'write the address of the repository there, and run npm run package:links\n',
    ]);
  });

  it('accepts a real address once the files that depend on it are written', async () => {
    const [code, message] = await check('nest-locks', { withLinks: false });
    expect([code, message]).toEqual([1, expect.stringMatching(/: run npm run package:links\n$/)]);
    expect(await check('nest-locks', { withLinks: true })).toEqual([0, '']);
  });
});

it('npm run package:sbom lists the library, and acorn as its only dependency', async () => {
  interface Component {
    readonly name: string;
    readonly version: string;
    readonly hashes?: readonly object[];
  }
  interface Bom {
    readonly bomFormat: string;
    readonly metadata: { readonly component: Component };
    readonly components: readonly Component[];
  }
  const args = ['run', '--silent', 'package:sbom'];
  const { code, stdout, stderr } = await runCommand('npm', args, ROOT, UNGUARDED);
  expect([code, stderr]).toEqual([0, '']);
  const { bomFormat, metadata, components } = JSON.parse(stdout) as Bom;
  const { name, version } = JSON.parse(
    readFileSync(join(ROOT, LIBRARY, 'package.json'), 'utf8'),
  ) as Component;
  expect({ bomFormat, component: metadata.component }).toMatchObject({
    bomFormat: 'CycloneDX',
    component: { name, version },
  });
  expect(components.map(({ name, hashes }) => [name, hashes?.length])).toEqual([['acorn', 1]]);
});

describe.each(readdirSync(join(ROOT, '.github/workflows')))('.github/workflows/%s', (name) => {
  const text = readFileSync(join(ROOT, '.github/workflows', name), 'utf8');

  it('pins each action by its major version, and needs no secret', () => {
    const actions = [...text.matchAll(/uses: (\S+)/g)].map(([, action]) => action);
    expect(actions).toContain('actions/checkout@v6');
    expect(actions.filter((action) => !/^[\w-]+\/[\w-]+@v\d+$/.test(action ?? ''))).toEqual([]);
    expect(text).not.toMatch(/secrets\.|_TOKEN: (?!\$\{\{ github\.token \}\})/);
  });

  it('runs scripts that exist', () => {
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      scripts: Record<string, string>;
    };
    const run = [...text.matchAll(/npm run (?:--silent )?([\w:]+)/g)].map(
      ([, script = '']) => script,
    );
    expect(run.filter((script) => !(script in scripts))).toEqual([]);
  });
});
