import type { LoggerService } from '@nestjs/common';

/** A Nest logger that records its messages. */
export class RecordingLogger implements LoggerService {
  readonly #lines: { readonly context: unknown; readonly text: string }[] = [];

  log = this.#note('log');
  error = this.#note('error');
  warn = this.#note('warn');
  fatal = this.#note('fatal');

  /** The messages of one context, each after its level: `warn <message>`. */
  lines(context: string): string[] {
    return this.#lines.filter((line) => line.context === context).map(({ text }) => text);
  }

  #note(level: string): (message: unknown, ...rest: unknown[]) => void {
    return (message, ...rest) => {
      this.#lines.push({ context: rest.at(-1), text: `${level} ${String(message)}` });
    };
  }
}
