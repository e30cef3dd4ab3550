/**
 * Loaded before everything else (`node --import`) into a replica whose clock is to be wrong by CLOCK_OFFSET_MS. Only
 * the time of day is shifted: what measures how much time has passed is right on every machine.
 */
const offset = Number(process.env['CLOCK_OFFSET_MS'] ?? 0);
const RealDate = Date;

globalThis.Date = class extends RealDate {
  constructor(...args: readonly unknown[]) {
    super(...((args.length === 0 ? [RealDate.now() + offset] : args) as [number]));
  }

  static override now(): number {
    return RealDate.now() + offset;
  }
} as DateConstructor;
