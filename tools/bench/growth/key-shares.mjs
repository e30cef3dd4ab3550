/** How the load is divided among the masters of a Redis Cluster: a key belongs to a slot, and a slot to a master. */

const SLOTS = 16_384;

/**
 * The share of the locks in each slot, when the n-th key is asked for in proportion to 1 / n^skew (Zipf's law). 0 is an
 * even load, and 1 is what is often found in nature: the second key half as often as the first one.
 *
 * @param {{ keys: number, skew: number, hotKeys?: number, holdsPerLease?: number }} load the hottest keys are passed on
 *   inside of processes, so that the server is asked only once for so many holds
 * @returns {KeyShares}
 */
export function keyShares({ keys, skew, hotKeys = 0, holdsPerLease = 1 }) {
  const slots = new Array(SLOTS).fill(0);
  let holds = 0;
  for (let n = 1; n <= keys; n++) {
    const asked = n ** -skew;
    slots[slotOf(String(n))] += n <= hotKeys ? asked / holdsPerLease : asked;
    holds += asked;
  }
  const upTo = [0];
  for (const sent of slots) upTo.push(upTo.at(-1) + sent / holds);
  return { upTo, hottestKey: 1 / holds };
}

/**
 * Shares of all holds.
 *
 * @typedef {object} KeyShares
 * @property {number[]} upTo how many are in the slots below the n-th; the last one is what reaches the servers at all
 * @property {number} hottestKey
 */

/** The share of the master that has most to do, if each has as many slots as the others. */
export function busiestShare({ upTo }, masters) {
  const below = (master) => upTo[Math.ceil((SLOTS * master) / masters)];
  let busiest = 0;
  for (let n = 0; n < masters; n++) busiest = Math.max(busiest, below(n + 1) - below(n));
  return busiest;
}

const CRC = Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = (crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0);
  return crc & 0xffff;
});

/** CRC16 (XMODEM) of an ASCII hash tag, modulo the number of slots, as the specification of Redis Cluster has it. */
export function slotOf(hashTag) {
  let crc = 0;
  for (let n = 0; n < hashTag.length; n++) {
    crc = ((crc << 8) ^ CRC[(crc >> 8) ^ hashTag.charCodeAt(n)]) & 0xffff;
  }
  return crc % SLOTS;
}
