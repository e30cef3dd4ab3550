import { type ProxyLink, TcpProxy } from 'kit';

/**
 * A way to a Redis server that can also be slow or swallow everything, like a load balancer or the address of a managed
 * Redis.
 */
export class LatencyProxy extends TcpProxy {
  /** Each new link draws its own delay, so messages overtake answers and vice versa. */
  #delayMs: () => number = () => 0;

  /** From now on, present connections pass nothing on, and nobody is told. New ones are not affected. */
  swallow(): void {
    for (const link of this.links) link.passNothing();
  }

  /** Lets what the server says arrive later, by a different time on each connection. */
  slowDown(delayMs: () => number): void {
    this.#delayMs = delayMs;
    for (const link of this.links) link.answersLateByMs = delayMs();
  }

  protected override accept(link: ProxyLink): void {
    link.answersLateByMs = this.#delayMs();
  }
}
