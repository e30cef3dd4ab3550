import ts from 'typescript';
import { convertDecorator } from './murlock/decorator.js';
import { convertModule } from './murlock/module.js';
import * as murlock from './murlock/service.js';
import { readSettings } from './murlock/settings.js';
import { oldNameAt } from './old-names.js';
import type { Project } from './project.js';
import { convertCall } from './redlock/calls.js';
import { RedlockMembers, tellInstance } from './redlock/instances.js';
import { LockServices } from './redlock/lock-services.js';
import * as redlock from './redlock/names.js';
import { readUse } from './redlock/settings.js';
import { type Finding, Source } from './source.js';

export interface Migration {
  /** The files that change, and their new text. */
  readonly files: ReadonlyMap<string, string>;
  /** What happened to each place, in the order of files and lines. */
  readonly findings: readonly Finding[];
}

/** @param keyPrefix `lockKeyPrefix` of murlock, where the options of its module do not show it */
export function migrate(project: Project, keyPrefix?: 'default' | 'custom'): Migration {
  const sources = project.files.map((file) => new Source(file, project.checker));
  const services = new LockServices();
  const settings = readSettings(project, keyPrefix);
  const use = readUse(project, (call) => services.whyNone(call));
  const members = new RedlockMembers(sources);

  const each = (visit: (source: Source, node: ts.Node) => void): void => {
    for (const source of sources) visitAll(source.file, (node) => visit(source, node));
  };
  let isModuleLeft = false;
  each((source, node) => {
    if (ts.isDecorator(node)) convertDecorator(source, node, settings);
    if (!ts.isCallExpression(node)) return;
    if (!convertModule(source, node)) isModuleLeft = true;
    murlock.convertRunWithLock(source, node, settings);
    convertCall(source, node, use, services);
    tellModuleName(source, node);
  });
  services.declareAll(members.isUnused);
  members.removeUnused();
  each((source, node) => {
    if (ts.isNewExpression(node)) tellInstance(source, node, use);
    if (ts.isPropertyAccessExpression(node)) redlock.convertMember(source, node, use);
    if (ts.isStringLiteral(node)) redlock.tellErrorNames(source, node);
    if (!ts.isIdentifier(node) || isImported(node)) return;
    murlock.convertName(source, node, isModuleLeft);
    redlock.convertName(source, node, use);
  });
  for (const source of sources) tellLeft(source);

  const changed = sources.filter(({ isChanged }) => isChanged);
  return {
    files: new Map(changed.map((source) => [source.file.fileName, source.result()])),
    findings: sources.flatMap(({ findings }) => findings.sort((a, b) => a.line - b.line)),
  };
}

function visitAll(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node);
  ts.forEachChild(node, (child) => visitAll(child, visit));
}

function isImported(node: ts.Node): boolean {
  for (let at = node; !ts.isSourceFile(at); at = at.parent) {
    if (ts.isImportDeclaration(at) || ts.isExportDeclaration(at)) return true;
  }
  return false;
}

/** `jest.mock('redlock')`, `require('murlock')` and `import('redlock')`. */
function tellModuleName(source: Source, call: ts.CallExpression): void {
  const [name] = call.arguments;
  if (name === undefined || !ts.isStringLiteral(name)) return;
  const library = (
    { murlock: 'murlock', redlock: 'redlock', '@sesamecare-oss/redlock': 'redlock' } as const
  )[name.text];
  if (library === undefined) return;
  source.tell('left', library, call, `${source.textOf(call.expression)}('${name.text}')`);
}

/** Names of the old libraries that are still there, and of which nothing was said. */
function tellLeft(source: Source): void {
  const told = new Set(
    source.findings.filter(({ outcome }) => outcome === 'left').map(({ line }) => line),
  );
  for (const node of source.leftNames()) {
    const { line } = source.file.getLineAndCharacterOfPosition(node.getStart(source.file));
    const { library } = oldNameAt(source.checker, node) ?? { library: 'murlock' };
    if (!told.has(line + 1)) source.tell('left', library, node, `${node.text} is still used here`);
    told.add(line + 1);
  }
}
