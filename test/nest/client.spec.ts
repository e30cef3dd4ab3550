/** Who is watched as the client of a request, for what Nest or a test may pass to a handler. */
import { describe, expect, it } from '@jest/globals';
import type { ExecutionContext } from '@nestjs/common';
import { ExecutionContextHost } from '@nestjs/core/helpers/execution-context-host.js';
import { EventEmitter } from 'node:events';
import { whenClientLeaves } from '../../libs/nestjs-locked/src/nest/requests/client.js';

function contextOf(kind: string, ...args: unknown[]): ExecutionContext {
  const context = new ExecutionContextHost(args);
  context.setType(kind);
  return context;
}

/** What a test sees of one wait. */
function watch(context: ExecutionContext): { left: number; readonly stop: () => void } {
  const seen = { left: 0, stop: () => {} };
  seen.stop = whenClientLeaves(context, () => {
    seen.left += 1;
  });
  return seen;
}

function call(cancelled = false): EventEmitter {
  return Object.assign(new EventEmitter(), { cancelled, metadata: {} });
}

describe('a client', () => {
  it.each([
    [
      'a socket',
      contextOf('http', { socket: Object.assign(new EventEmitter(), { destroyed: true }) }),
    ],
    ['a call', contextOf('rpc', {}, {}, call(true))],
  ])('that has left before is noticed at once: %s', (_, context) => {
    expect(watch(context).left).toBe(1);
  });

  it('is not noticed after the wait', () => {
    const socket = new EventEmitter();
    const [first, second] = [
      watch(contextOf('http', { socket })),
      watch(contextOf('http', { socket })),
    ];
    first?.stop();
    socket.emit('close');
    expect([first?.left, second?.left]).toEqual([0, 1]);
  });

  it.each([
    ['nothing', contextOf('http')],
    ['null', contextOf('http', null)],
    ['a request without a socket', contextOf('http', {})],
    ['a request whose socket cannot be listened to', contextOf('http', { socket: {} })],
    ['a GraphQL context without a request', contextOf('graphql', {}, {}, {}, {})],
    ['a payload that looks like a call', contextOf('rpc', { cancelled: false, metadata: {} })],
    ['a payload without a context', contextOf('rpc', 'data')],
    ['another kind of request', contextOf('telegraf', { socket: new EventEmitter() })],
  ])('is not watched if there is %s', (_, context) => {
    const seen = watch(context);
    seen.stop();
    expect(seen.left).toBe(0);
  });
});
