import type { Carried, Flight } from '../../../simulate/dist/network/link.js';
import type { Stage } from '../../../simulate/dist/stage.js';
import type { FlightView } from '../view.js';
import { type CarriedText, textOf } from './carried-text.js';

interface Seen extends CarriedText {
  readonly id: number;
  readonly process: string;
  readonly isToServer: boolean;
  /** Undefined while a link holds it. */
  readonly flight: Flight | undefined;
}

/** The messages between the processes and the server. */
export class Flights {
  /** What was seen of a message: its label must not change while it is on its way. */
  readonly #known = new WeakMap<Carried, CarriedText & { readonly id: number }>();
  #count = 0;
  #seen: readonly Seen[] = [];

  constructor(readonly stage: Stage) {}

  /** Whether a message about a lock is on its way. */
  get isTelling(): boolean {
    return this.#seen.some(({ isTelling, flight }) => isTelling && flight !== undefined);
  }

  get tellingIds(): string {
    return this.#seen.flatMap(({ isTelling, id }) => (isTelling ? [id] : [])).join(' ');
  }

  look(): void {
    this.#seen = this.stage.processes.flatMap(({ machine, client }) =>
      client.connections.flatMap(({ links }) => {
        if (links === undefined) return [];
        return [links.there, links.back].flatMap(({ flights, held }, i) => {
          const known = { process: machine.name, isToServer: i === 0 };
          return [
            ...[...flights].map((flight) => ({ ...known, ...this.#text(flight.carried), flight })),
            ...held.map((carried) => ({ ...known, ...this.#text(carried), flight: undefined })),
          ];
        });
      }),
    );
  }

  views(now: number): readonly FlightView[] {
    return this.#seen.map(({ flight, ...seen }) => ({
      ...seen,
      progress:
        flight === undefined
          ? undefined
          : Math.min(1, (now - flight.sentAt) / Math.max(0.001, flight.arrivesAt - flight.sentAt)),
    }));
  }

  #text(carried: Carried): CarriedText & { readonly id: number } {
    const known = this.#known.get(carried);
    if (known !== undefined) return known;
    const text = { ...textOf(carried, this.stage.server.model), id: (this.#count += 1) };
    this.#known.set(carried, text);
    return text;
  }
}
