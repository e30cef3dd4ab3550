export const NO_LOCK = 'there is no lock';
export const NO_REDIS = 'does not use Redis';
export const NO_EXPIRY = 'never expires';
/**
 * Says why an accident of two processes cannot happen to a lock that each process has for itself, or that nobody waits
 * for.
 */
export function blocksNobody({ number }) {
    if (number === 2)
        return 'a holder in another process does not block it';
    return number === 4 ? 'nobody waits' : undefined;
}
export function needs(stage, reasons) {
    const missing = Object.entries(reasons).find(([trait]) => !stage.traits.some((own) => own === trait));
    return missing?.[1];
}
//# sourceMappingURL=accident.js.map