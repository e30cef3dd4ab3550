import { describe, expect, it } from '@jest/globals';
import { type Linked, LinkedList } from '../../libs/nestjs-locked/src/core/runtime/linked-list.js';

class Item implements Linked<Item> {
  list: object | undefined;
  before: Item | undefined;
  after: Item | undefined;

  constructor(readonly name: string) {}
}

function listOf(names: string) {
  const items = [...names].map((name) => new Item(name));
  const list = new LinkedList<Item>();
  for (const item of items) list.add(item);
  return { list, items };
}

const namesIn = (list: LinkedList<Item>): string => [...list].map(({ name }) => name).join('');

describe('LinkedList', () => {
  it('keeps the order of arrival, whoever leaves', () => {
    for (const leaver of 'abcd') {
      const { list, items } = listOf('abcd');
      const item = items.find(({ name }) => name === leaver) as Item;
      list.delete(item);
      expect(namesIn(list)).toBe('abcd'.replace(leaver, ''));
      expect([list.size, list.has(item)]).toEqual([3, false]);
      list.add(item);
      expect(namesIn(list)).toBe(`${'abcd'.replace(leaver, '')}${leaver}`);
      expect([list.size, list.has(item)]).toEqual([4, true]);
    }
  });

  it('is empty when all have left, in any order', () => {
    for (const order of ['abc', 'acb', 'bac', 'bca', 'cab', 'cba']) {
      const { list, items } = listOf('abc');
      for (const name of order) list.delete(items.find((item) => item.name === name) as Item);
      expect([list.size, list.first, namesIn(list)]).toEqual([0, undefined, '']);
    }
  });

  it('leaves an item of another list alone', () => {
    const [here, there] = [listOf('a'), listOf('b')];
    here.list.delete(there.items[0] as Item);
    expect([namesIn(here.list), namesIn(there.list)]).toEqual(['a', 'b']);
    expect(here.list.has(there.items[0] as Item)).toBe(false);
  });

  it('keeps nothing of an item that has left', () => {
    const { list, items } = listOf('abc');
    const [a, b, c] = items as [Item, Item, Item];
    list.delete(b);
    expect([b.list, b.before, b.after]).toEqual([undefined, undefined, undefined]);
    expect([a.after, c.before]).toEqual([c, a]);
  });
});
