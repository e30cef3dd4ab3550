import ts from 'typescript';
import { oldNameAt } from '../old-names.js';
import type { Source } from '../source.js';
import { isSupport } from './calls.js';
import { isRedlock, membersOf } from './lock-services.js';
import type { RedlockUse } from './settings.js';

const CONNECT = 'import RedisLockModule.forRoot({ connection }) in your AppModule';

/** Finds the members of classes that hold a `Redlock`, and whether anything still uses them. */
export class RedlockMembers {
  readonly #uses = new Map<ts.Declaration, { source: Source; node: ts.Identifier }[]>();
  readonly #members: { source: Source; member: ts.Declaration }[] = [];

  constructor(sources: readonly Source[]) {
    for (const source of sources) this.#findMembers(source, source.file);
    const names = new Set(this.#members.map(({ member }) => nameOf(member)));
    for (const source of sources) this.#findUses(source, source.file, names);
  }

  /** Whether every use of a member is replaced, or only made it or listened to it. */
  isUnused = (member: ts.Declaration): boolean =>
    (this.#uses.get(member) ?? []).every(
      ({ source, node }) => source.isReplaced(node) || supportAround(node) !== undefined,
    );

  /** Removes the members that nothing uses any more, and what made them. */
  removeUnused(): void {
    for (const { source, member } of this.#members) {
      const uses = this.#uses.get(member) ?? [];
      if (!this.isUnused(member) || !uses.some(({ source: of, node }) => of.isReplaced(node)))
        continue;
      for (const { source: of, node } of uses) {
        const statement = supportAround(node);
        if (statement !== undefined && !of.isReplaced(node)) of.remove(statement);
      }
      if (ts.isPropertyDeclaration(member)) source.remove(member);
    }
  }

  #findMembers(source: Source, node: ts.Node): void {
    if (ts.isClassLike(node)) {
      for (const member of membersOf(node)) {
        if (member.name !== undefined && isRedlock(source, member))
          this.#members.push({ source, member });
      }
    }
    ts.forEachChild(node, (child) => this.#findMembers(source, child));
  }

  #findUses(source: Source, node: ts.Node, names: ReadonlySet<string | undefined>): void {
    if (ts.isIdentifier(node) && names.has(node.text)) {
      const declarations = source.checker.getSymbolAtLocation(node)?.declarations ?? [];
      for (const declaration of declarations) {
        if (ts.getNameOfDeclaration(declaration) === node) continue;
        this.#uses.set(declaration, [...(this.#uses.get(declaration) ?? []), { source, node }]);
      }
    }
    ts.forEachChild(node, (child) => this.#findUses(source, child, names));
  }
}

/** What is to be done by hand where a `Redlock` is made. */
export function tellInstance(source: Source, node: ts.NewExpression, use: RedlockUse): void {
  if (use.whyNone !== undefined) return;
  if (oldNameAt(source.checker, node.expression)?.name !== 'Redlock') return;
  const isGone = source.isReplaced(node);
  source.tell(
    isGone ? 'check' : 'left',
    'redlock',
    node,
    isGone ? CONNECT : `new Redlock: remove it when nothing uses it any more, and ${CONNECT}`,
  );
}

function nameOf(member: ts.Declaration): string | undefined {
  return ts.getNameOfDeclaration(member)?.getText();
}

/** The statement `this.redlock = new Redlock(…)` or `this.redlock.on('error', …)` around a use. */
function supportAround(node: ts.Node): ts.Statement | undefined {
  const member =
    ts.isPropertyAccessExpression(node.parent) && node.parent.name === node ? node.parent : node;
  const { parent } = member;
  if (
    ts.isBinaryExpression(parent) &&
    parent.left === member &&
    ts.isExpressionStatement(parent.parent)
  ) {
    return ts.isNewExpression(parent.right) ? parent.parent : undefined;
  }
  if (!ts.isPropertyAccessExpression(parent) || !ts.isCallExpression(parent.parent))
    return undefined;
  const statement = parent.parent.parent;
  return isSupport(parent.parent) && ts.isExpressionStatement(statement) ? statement : undefined;
}
