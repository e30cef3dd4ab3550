import ts from 'typescript';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Stands for what differs from case to case. */
const GAP = '…';

/** A message that the library throws or logs. */
export interface SaidMessage {
  /** With `…` where something is filled in, except at its ends. */
  readonly text: string;
  /** Where it is said: `core/keys/lock-key.ts: LockKeyError` */
  readonly where: string;
}

/**
 * The messages of our errors, and what is written to Nest's log. A message that is put together elsewhere is found
 * where its words stand only if that is a call, too; the causes of errors (`new Error`) are left out.
 */
export function saidMessages(sources: string): SaidMessage[] {
  return readdirSync(sources, { recursive: true, encoding: 'utf8' })
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path.endsWith('.ts'))
    .flatMap((path) => messagesIn(path, readFileSync(join(sources, path), 'utf8')));
}

/** A heading of the page, or a message, in one form. */
export function withGaps(text: string): string {
  return text
    .replaceAll(/<[^>]*>|…/g, GAP)
    .replaceAll(/^…+|…+$/g, '')
    .trim();
}

function messagesIn(path: string, source: string): SaidMessage[] {
  const messages: SaidMessage[] = [];
  const visit = (node: ts.Node): void => {
    const speaker = speakerOf(node);
    const text = speaker && textOf(speaker.message);
    if (speaker && text !== undefined) {
      messages.push({ text: withGaps(text), where: `${path}: ${speaker.name}` });
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile(path, source, ts.ScriptTarget.Latest, true));
  return messages;
}

function speakerOf(node: ts.Node): { name: string; message: ts.Expression } | undefined {
  if (!ts.isNewExpression(node) && !ts.isCallExpression(node)) return undefined;
  const name = node.expression.getText();
  const speaks = ts.isNewExpression(node)
    ? /^Lock\w*Error$/.test(name)
    : /[lL]ogger\b.*\.(?:error|warn|log)$/s.test(name);
  const message = node.arguments?.[0];
  return speaks && message !== undefined ? { name, message } : undefined;
}

/** Undefined for a text that is put together elsewhere. */
function textOf(node: ts.Expression): string | undefined {
  if (ts.isStringLiteralLike(node)) return node.text;
  if (!ts.isTemplateExpression(node)) return undefined;
  const rest = node.templateSpans.map(({ literal }) => GAP + literal.text);
  return node.head.text + rest.join('');
}
