import type { LoggerService } from '@nestjs/common';

/** A logger of Nest that keeps what it is told. */
export class RecordingLogger implements LoggerService {
  readonly #lines: { readonly context: unknown; readonly text: string }[] = [];

  log = this.#note('log');
  error = this.#note('error');
  warn = this.#note('warn');
  fatal = this.#note('fatal');

  /** `warn <message>` and so on, of one context. */
  lines(context: string): string[] {
    return this.#lines.filter((line) => line.context === context).map(({ text }) => text);
  }

  #note(level: string): (message: unknown, ...rest: unknown[]) => void {
    return (message, ...rest) => {
      this.#lines.push({ context: rest.at(-1), text: `${level} ${String(message)}` });
    };
  }
}
