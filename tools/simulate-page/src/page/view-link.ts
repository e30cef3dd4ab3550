import { type Action, ACTIONS, SCENES, type Script } from '../view.js';

/** What a link leads to: a history, and the moment that is shown; undefined: the beginning. */
export interface Linked {
  readonly script: Script;
  readonly atMs: number | undefined;
}

/** Whether a hash is of a history, and not of a heading of the page around. */
export function isOfHistory(hash: string): boolean {
  return new URLSearchParams(hash.replace(/^#/, '')).has('seed');
}

/** @param hash with or without its `#`; what cannot be read of it is left out */
export function linkedBy(hash: string): Linked {
  const values = new URLSearchParams(hash.replace(/^#/, ''));
  const scene = SCENES.find((name) => name === values.get('scene')) ?? 'calm';
  const actions = (values.get('do') ?? '').split(',').flatMap(actionFrom);
  return {
    script: {
      seed: wholeFrom(values.get('seed')) ?? 1,
      scene,
      actions: actions.sort((a, b) => a.atMs - b.atMs),
    },
    atMs: numberFrom(values.get('at')),
  };
}

export function hashOf({ script: { seed, scene, actions }, atMs }: Linked): string {
  const parts = [`seed=${seed}`];
  if (scene !== 'calm') parts.push(`scene=${scene}`);
  if (actions.length > 0) parts.push(`do=${actions.map(actionText).join(',')}`);
  if (atMs !== undefined) parts.push(`at=${Math.floor(atMs * 1000) / 1000}`);
  return `#${parts.join('&')}`;
}

function actionText({ what, process, atMs }: Action): string {
  return `${process === undefined ? what : `${what}.${process}`}@${atMs}`;
}

function actionFrom(text: string): Action[] {
  const [, name, process, at] = /^([a-z]+)(?:\.(p\d))?@([\d.]+)$/.exec(text) ?? [];
  const what = ACTIONS.find((other) => other === name);
  const atMs = numberFrom(at);
  return what === undefined || atMs === undefined ? [] : [{ what, process, atMs }];
}

function numberFrom(text: string | null | undefined): number | undefined {
  const number = text === '' ? NaN : Number(text ?? NaN);
  return Number.isFinite(number) && number >= 0 && number < 1e9 ? number : undefined;
}

function wholeFrom(text: string | null): number | undefined {
  const number = numberFrom(text);
  return number === undefined ? undefined : Math.floor(number);
}
