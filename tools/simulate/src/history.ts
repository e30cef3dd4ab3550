import type { HistoryLine } from 'check-history';
import type { VirtualTime } from './world/virtual-time.js';

type WithoutTime<Line> = Line extends unknown ? Omit<Line, 'at'> : never;

/** Records what happens in one world. */
export class History {
  readonly lines: HistoryLine[] = [];

  constructor(readonly time: VirtualTime) {}

  tell(line: WithoutTime<HistoryLine>): void {
    this.lines.push({ at: this.time.now, ...line });
  }
}
