import type { Spread } from '../measure/statistics.js';

/** Three significant digits, which is more than the machine's noise allows. */
export function inDigits(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (Number.isInteger(value)) return value.toLocaleString('en');
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString('en');
  if (size >= 10) return value.toFixed(1);
  if (size >= 1) return value.toFixed(2);
  return Number(value.toPrecision(2)).toString();
}

/** The median, followed by the interquartile range if there was more than one round. */
export function withSpread({ median, low, high }: Spread): string {
  if (low === high) return inDigits(median);
  return `${inDigits(median)} (${inDigits(low)}–${inDigits(high)})`;
}
