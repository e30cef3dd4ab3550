import { quoted } from './runtime/quoted.js';

/** A lock in messages, with the method or label of its call: `'stock:42' of 'StockService.take'`. */
export function lockName({ key, label }: { key: string; label: string | undefined }): string {
  return label === undefined ? `'${key}'` : `'${key}' of ${quoted(label)}`;
}
