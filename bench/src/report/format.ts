import type { Spread } from '../measure/statistics.js';

/** Three significant digits, which is more than the machine's noise allows. */
export function inDigits(value: number): string {
  if (!Number.isFinite(value)) return '–';
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString('en');
  if (size >= 10) return value.toFixed(1);
  if (size >= 1) return value.toFixed(2);
  return value === 0 ? '0' : Number(value.toPrecision(2)).toString();
}

export function withSpread({ median, low, high }: Spread): string {
  return `${inDigits(median)} (${inDigits(low)} to ${inDigits(high)})`;
}
