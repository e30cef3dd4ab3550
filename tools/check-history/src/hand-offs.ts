import { type Call, entriesInto } from './calls.js';
import { type Calm, HEALING_MS } from './calm.js';
import type { Finding } from './finding.js';

/**
 * A lock that was detached is adopted once. Until its time is over, whoever asks for it first gets it.
 *
 * @param losses where the server may have forgotten who has adopted it
 */
export function handOffs(calls: readonly Call[], calm: Calm, losses: readonly number[]): Finding[] {
  const adopters = calls.filter(({ adopts }) => adopts !== undefined);
  const entries = entriesInto(adopters);
  const twice = entries.flatMap((later, i): Finding[] => {
    const first = entries.slice(0, i).find(({ adopts }) => adopts === later.adopts);
    if (first === undefined) return [];
    const { index, at } = later.entered;
    if (losses.some((loss) => loss > first.calledAt.index && loss < index)) return [];
    const text = `${later.name} has adopted what ${first.name} had adopted before`;
    return [{ rule: 'a text is adopted once', at, text }];
  });
  const refused = adopters.flatMap((call): Finding[] => {
    const { adopts, keys, name, outcome, calledAt, endedAt = Infinity } = call;
    const from = calls.find(({ detached }) => detached?.text === adopts);
    if (outcome !== 'not adopted' || from?.detached === undefined) return [];
    const { until } = from.detached;
    const isWanted = adopters.some(
      (other) => other !== call && other.adopts === adopts && other.calledAt.at <= endedAt,
    );
    const since = from.calledAt.at - from.leaseMs - HEALING_MS;
    const isCalm =
      calm.ofServerDespiteLack(since, endedAt) &&
      keys.every((key) => calm.ofKey(key, since, endedAt));
    if (isWanted || endedAt >= until || !isCalm) return [];
    const text = `${name} could not adopt what ${from.name} had detached, ${Math.round(until - calledAt.at)} ms before its end`;
    return [{ rule: 'a detached lock can be adopted', at: endedAt, text }];
  });
  return [...twice, ...refused];
}

/** While a detached lock waits for its adopter, nobody else gets its key. */
export function keptForAdopters(key: string, calls: readonly Call[], calm: Calm): Finding[] {
  const entries = entriesInto(calls);
  return calls.flatMap(({ name, detached, calledAt, leaseMs }) => {
    if (detached === undefined) return [];
    const { text: adopts, index, until } = detached;
    const asked = calls.filter((call) => call.adopts === adopts).map((call) => call.calledAt.at);
    const keptUntil = Math.min(until, ...asked) - calm.bounds.timerMs;
    const from = calledAt.at - leaseMs - HEALING_MS;
    return entries.flatMap((later): Finding[] => {
      const { at } = later.entered;
      if (later.adopts === adopts || later.entered.index < index || at >= keptUntil) return [];
      if (!calm.ofServerDespiteLack(from, at) || !calm.ofKey(key, from, at)) return [];
      const text = `${later.name} entered '${key}', which ${name} had detached for ${Math.round(until - at)} ms more`;
      return [{ rule: 'a key is kept', at, text }];
    });
  });
}
