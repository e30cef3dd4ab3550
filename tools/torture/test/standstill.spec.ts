import { describe, expect, it } from '@jest/globals';
import { standStill } from '../src/faults/fault.js';

describe('a server that several faults let stand still', () => {
  it('goes on when the last of them lets it', () => {
    const orders: string[] = [];
    const server = { pause: () => orders.push('pause'), resume: () => orders.push('resume') };
    const first = standStill(server);
    const second = standStill(server);
    first();
    expect(orders).not.toContain('resume');
    second();
    expect(orders.at(-1)).toBe('resume');
    standStill(server)();
    expect(orders.filter((order) => order === 'resume')).toHaveLength(2);
  });
});
