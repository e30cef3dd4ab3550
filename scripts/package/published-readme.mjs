/**
 * What npm shows about the library, from what the repository shows: npm resolves no links into a repository whose
 * package is in a folder, and no ready tool rewrites links, the fields of package.json and an address in a document.
 */
import { format, resolveConfig } from 'prettier';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const ROOT = new URL('../../', import.meta.url);
export const PACKAGE_FILE = fileURLToPath(new URL('libs/nestjs-locked/package.json', ROOT));
export const CODEMOD_FILE = fileURLToPath(new URL('libs/nestjs-locked-migrate/package.json', ROOT));
export const README_FILE = fileURLToPath(new URL('libs/nestjs-locked/README.md', ROOT));
export const SECURITY_FILE = fileURLToPath(new URL('SECURITY.md', ROOT));
const SOURCE_FILE = fileURLToPath(new URL('README.md', ROOT));
/** The documents that lead to the playground in the browser. */
export const PLAYGROUND_FILES = [
  SOURCE_FILE,
  fileURLToPath(new URL('examples/playground/README.md', ROOT)),
];

/**
 * Each file that is packed or leads to the playground, with the text that follows from `repository.url`.
 * @returns {Promise<[file: string, text: string][]>}
 */
export async function textsThatFollow() {
  return [
    [PACKAGE_FILE, await packageJson()],
    [CODEMOD_FILE, await codemodJson()],
    [README_FILE, await readme()],
    ...(await Promise.all(
      PLAYGROUND_FILES.map(async (file) => [file, await withPlayground(file)]),
    )),
  ];
}

/**
 * package.json with the addresses that follow from `repository.url`, the only one that is written by hand.
 * @returns {Promise<string>}
 */
export async function packageJson() {
  const manifest = JSON.parse(readFileSync(PACKAGE_FILE, 'utf8'));
  const address = webAddress(manifest.repository.url);
  manifest.homepage = `${address}#readme`;
  manifest.bugs = `${address}/issues`;
  return formatted(PACKAGE_FILE, JSON.stringify(manifest));
}

/**
 * package.json of the codemod, whose repository is that of the library.
 * @returns {Promise<string>}
 */
export async function codemodJson() {
  const manifest = JSON.parse(readFileSync(CODEMOD_FILE, 'utf8'));
  manifest.repository.url = JSON.parse(readFileSync(PACKAGE_FILE, 'utf8')).repository.url;
  return formatted(CODEMOD_FILE, JSON.stringify(manifest));
}

/**
 * The README of the repository, with links that lead somewhere from everywhere.
 * @returns {Promise<string>}
 */
export async function readme() {
  const { repository } = JSON.parse(readFileSync(PACKAGE_FILE, 'utf8'));
  const address = webAddress(repository.url);
  const source = await withPlayground(SOURCE_FILE);
  const absolute = source.replaceAll(
    /(!?)\[([^\]]*)\]\((?!https?:|#)([^()\s]+)\)/g,
    (_, image, text, path) =>
      `${image}[${text}](${address}/${image ? 'raw' : 'blob'}/HEAD/${path})`,
  );
  return formatted(README_FILE, absolute);
}

/**
 * A document with links that open the playground of this repository in the browser.
 *
 * @param {string} file one of `PLAYGROUND_FILES`
 * @returns {Promise<string>}
 */
export async function withPlayground(file) {
  const { repository } = JSON.parse(readFileSync(PACKAGE_FILE, 'utf8'));
  const name = new URL(webAddress(repository.url)).pathname.slice(1);
  const text = readFileSync(file, 'utf8');
  return formatted(
    file,
    text.replaceAll(/(stackblitz\.com\/github\/)[^\s)\]]+?(\/tree\/)/g, `$1${name}$2`),
  );
}

/**
 * The security policy, whose only address is the form of the code host for a report.
 * @returns {Promise<string>}
 */
export async function securityPolicy() {
  const { repository } = JSON.parse(readFileSync(PACKAGE_FILE, 'utf8'));
  const form = `${webAddress(repository.url)}/security/advisories/new`;
  const policy = readFileSync(SECURITY_FILE, 'utf8');
  return formatted(SECURITY_FILE, policy.replaceAll(/https:[^\s\])]+\/advisories\/new/g, form));
}

/** @param {string} url `git+https://host/owner/name.git` @returns {string} */
function webAddress(url) {
  return url.replace(/^git\+/, '').replace(/\.git$/, '');
}

async function formatted(file, text) {
  return format(text, { ...(await resolveConfig(file)), filepath: file });
}
