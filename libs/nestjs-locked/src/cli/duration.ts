/** A duration for people: `18.2s`, `2m 13s`, `3h 5m`, `2d 3h`. */
export function shownDuration(ms: number): string {
  const tenths = Math.floor(ms / 100) / 10;
  if (tenths < 60) return `${tenths.toFixed(1)}s`;
  const seconds = Math.floor(tenths);
  const [minutes, hours, days] = [60, 3_600, 86_400].map((unit) => Math.floor(seconds / unit)) as [
    number,
    number,
    number,
  ];
  if (hours === 0) return `${minutes}m ${seconds % 60}s`;
  if (days === 0) return `${hours}h ${minutes % 60}m`;
  return `${days}d ${hours % 24}h`;
}
