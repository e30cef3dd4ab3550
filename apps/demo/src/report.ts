import type { Sale } from './sale.js';
import { type Row, table, whole } from './table.js';

const HEADS: readonly ((sale: Sale) => string)[] = [
  (sale) => sale.scenario.name,
  (sale) => (sale.isLocked ? 'with lock' : 'without lock'),
];

const ROWS: readonly Row<Sale>[] = [
  ['requests', (sale) => whole(sale.receipts.length)],
  ['  sold', (sale) => whole(sale.count('sold'))],
  ['  refused: not enough left', (sale) => whole(sale.count('refused'))],
  ['  refused: busy', (sale) => whole(sale.count('busy'))],
  ['  failed', (sale) => whole(sale.count('failed'))],
  ['pieces at the start', (sale) => whole(sale.scenario.pieces)],
  ['  sold', (sale) => whole(sale.soldPieces)],
  ['  final stock', (sale) => whole(sale.books.left)],
  ['  oversold', (sale) => whole(sale.oversold)],
  ['  lost updates', (sale) => whole(sale.lostUpdates)],
  ['requests per second', (sale) => whole(sale.requestsPerSecond)],
  ['wait, median (ms)', (sale) => whole(sale.waitPercentile(0.5))],
  ['wait, p99 (ms)', (sale) => whole(sale.waitPercentile(0.99))],
  ['wait, longest (ms)', (sale) => whole(sale.waitPercentile(1))],
  ['Redis commands per purchase', (sale) => perPurchase(sale)],
  ['result', (sale) => (sale.faults.length === 0 ? 'exact' : 'WRONG')],
];

/** A table with one column for each sale. */
export function salesTable(sales: readonly Sale[]): string {
  return table(sales, HEADS, ROWS);
}

/** What the words in the table mean. */
export function salesLegend(isRedisShared: boolean): string {
  const lines = [
    'oversold: pieces sold beyond those that existed.',
    'lost updates: pieces answered as sold, minus those that left the stock (start - final).',
    'wait: from sending a request to its answer.',
    'Redis commands per purchase: sent by clients, per request to buy (a refused one locks as well);',
    '  from INFO commandstats, without what scripts run inside.',
  ];
  if (isRedisShared)
    lines.push(
      '  REDIS_URL was given: what others sent to that server in the meantime is included.',
    );
  return lines.join('\n');
}

function perPurchase({ redisCommands, receipts }: Sale): string {
  return (redisCommands / receipts.length).toFixed(2);
}
