import type { Finding } from '../run/findings.js';
type Verdict = Finding | 'held';
interface VerdictWords {
    /** Shown in a cell beside the word, because colour alone tells many readers nothing. */
    readonly sign: string;
    readonly short: string;
    /** The word for a narrow cell. */
    readonly word: string;
    readonly meaning: string;
    readonly css: string;
}
export declare const VERDICTS: Readonly<Record<Verdict, VerdictWords>>;
export {};
//# sourceMappingURL=verdict-words.d.ts.map