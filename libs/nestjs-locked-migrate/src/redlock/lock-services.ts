import ts from 'typescript';
import { oldTypeOf } from '../old-names.js';
import type { Source } from '../source.js';

/** Gives classes the `LockService` that their locks now need. */
export class LockServices {
  readonly #names = new Map<ts.ClassLikeDeclaration, { source: Source; name: string }>();

  /** Why there is no `LockService` at a place; undefined if its class can have one. */
  whyNone(node: ts.Node): string | undefined {
    const found = classAround(node);
    return typeof found === 'string' ? found : undefined;
  }

  /** What the `LockService` is called at a place that can have one. */
  at(source: Source, node: ts.Node): string {
    const owner = classAround(node);
    if (typeof owner === 'string') throw new Error(owner);
    const known = this.#names.get(owner);
    if (known !== undefined) return `this.${known.name}`;
    const taken = new Set(membersOf(owner).map((member) => member.name?.getText()));
    const name = ['locks', 'lockService'].find((free) => !taken.has(free)) ?? 'redisLocks';
    this.#names.set(owner, { source, name });
    return `this.${name}`;
  }

  /**
   * Declares every `LockService` that was asked for, in the place of a `Redlock` that is used no more.
   * @param isUnused whether nothing uses this member any more
   */
  declareAll(isUnused: (member: ts.Declaration) => boolean): void {
    for (const [owner, { source, name }] of this.#names) {
      const declaration = `private readonly ${name}: ${source.use('LockService')}`;
      const replaced = membersOf(owner)
        .filter(ts.isParameter)
        .find((member) => isRedlock(source, member) && isUnused(member));
      if (replaced === undefined) declare(source, owner, declaration);
      else source.replace(replaced, declaration);
    }
  }
}

/** The members of a class that can hold something: properties, and parameters of the constructor that are ones. */
export function membersOf(
  owner: ts.ClassLikeDeclaration,
): (ts.ClassElement | ts.ParameterDeclaration)[] {
  const parameters = owner.members
    .filter(ts.isConstructorDeclaration)
    .flatMap(({ parameters }) => [...parameters])
    .filter((parameter) => ts.isParameterPropertyDeclaration(parameter, parameter.parent));
  return [...owner.members, ...parameters];
}

export function isRedlock(source: Source, member: ts.Declaration): boolean {
  const name = ts.getNameOfDeclaration(member);
  return name !== undefined && oldTypeOf(source.checker, name)?.name === 'Redlock';
}

function declare(source: Source, owner: ts.ClassLikeDeclaration, declaration: string): void {
  const constructor = owner.members
    .filter(ts.isConstructorDeclaration)
    .find(({ body }) => body !== undefined);
  const isInherited = owner.heritageClauses?.some(
    ({ token }) => token === ts.SyntaxKind.ExtendsKeyword,
  );
  const last = constructor?.parameters.at(-1);
  const { text } = source.file;
  if (constructor === undefined && !isInherited) {
    const first =
      owner.members.find((member) => !ts.isPropertyDeclaration(member)) ?? owner.members[0];
    const at = first?.getStart(source.file, true) ?? owner.end - 1;
    const indent = /[ \t]*$/.exec(text.slice(0, at))?.[0] ?? '';
    source.insert(at, `constructor(${declaration}) {}\n\n${indent}`);
  } else if (last === undefined && constructor !== undefined) {
    source.insert(text.indexOf('(', constructor.getStart(source.file)) + 1, declaration);
  } else if (
    last !== undefined &&
    !last.dotDotDotToken &&
    !last.questionToken &&
    !last.initializer
  ) {
    const line = text.lastIndexOf('\n', last.getStart(source.file)) + 1;
    const [indent = ''] = /^[ \t]*/.exec(text.slice(line)) ?? [];
    const isOnItsLine = text.slice(line, last.getStart(source.file)).trim() === '';
    source.insert(last.end, `,${isOnItsLine ? `\n${indent}` : ' '}${declaration}`);
  } else {
    // The parameters of the constructor cannot be added to, or are those of another class.
    const first = owner.members[0];
    const at = first?.getStart(source.file, true) ?? owner.end - 1;
    const indent = /[ \t]*$/.exec(text.slice(0, at))?.[0] ?? '';
    const inject = source.use('InjectLockService');
    source.insert(at, `@${inject}() ${declaration.replace(':', '!:')};\n\n${indent}`);
  }
}

/** The class whose `this` is meant at a place, or the reason why there is none that Nest makes. */
function classAround(node: ts.Node): ts.ClassLikeDeclaration | string {
  for (let at: ts.Node = node; !ts.isSourceFile(at); at = at.parent) {
    if (ts.isFunctionExpression(at) || ts.isFunctionDeclaration(at) || isInObject(at)) {
      return 'it is in a function that has no LockService; pass one to it';
    }
    if (!ts.isClassElement(at) || !ts.isClassLike(at.parent)) continue;
    const isStatic = ts.canHaveModifiers(at)
      ? ts.getModifiers(at)?.some(({ kind }) => kind === ts.SyntaxKind.StaticKeyword)
      : false;
    if (isStatic === true || ts.isClassStaticBlockDeclaration(at)) {
      return 'it is static, so that Nest injects no LockService; pass one to it';
    }
    const owner = at.parent;
    const decorators = ts.canHaveDecorators(owner) ? ts.getDecorators(owner) : undefined;
    if (decorators === undefined || decorators.length === 0) {
      return `${owner.name?.text ?? 'its class'} is no provider of Nest (it has no @Injectable()); pass it a LockService`;
    }
    return owner;
  }
  return 'it is in a function that has no LockService; pass one to it';
}

/** A method of an object literal has a `this` of its own. */
function isInObject(node: ts.Node): boolean {
  return (
    (ts.isMethodDeclaration(node) || ts.isAccessor(node)) &&
    ts.isObjectLiteralExpression(node.parent)
  );
}
