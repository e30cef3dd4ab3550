import { describe, expect, it } from '@jest/globals';
import { getEventListeners } from 'node:events';
import { watchAbort } from '../../libs/nestjs-locked/src/core/runtime/abort-watch.js';

describe('a signal that several calls share', () => {
  const share = (...names: string[]) => {
    const controller = new AbortController();
    const { signal } = controller;
    const told: string[] = [];
    const watch = (name: string): (() => void) => watchAbort(signal, () => told.push(name));
    const listeners = (): number => getEventListeners(signal, 'abort').length;
    return { controller, told, watch, listeners, undo: names.map(watch) };
  };

  it('has one listener, removed with the last call', () => {
    const { undo, listeners } = share('a', 'b');
    expect(listeners()).toBe(1);
    undo[0]?.();
    expect(listeners()).toBe(1);
    undo[1]?.();
    expect(listeners()).toBe(0);
  });

  it('still notifies the other calls when one of them has ended', () => {
    const { controller, told, undo } = share('a', 'b', 'c');
    undo[1]?.();
    controller.abort();
    expect(told).toEqual(['a', 'c']);
  });

  it('notifies a later call even if an earlier one ends twice', () => {
    const { controller, told, watch, undo } = share('a');
    undo[0]?.();
    watch('b');
    undo[0]?.();
    controller.abort();
    expect(told).toEqual(['b']);
  });
});
