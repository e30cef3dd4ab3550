import type { Timeline } from './timeline-model.js';
export interface TimelineOptions {
    /** What the picture shows, for readers who cannot see it. */
    readonly label: string;
    /** True for a file that stands alone: it has its own colours and background. */
    readonly standalone?: boolean;
    /** A line of text above the picture, in a file that stands alone. */
    readonly heading?: string;
    /** True to leave out the numbers that refer to the text below the picture. */
    readonly bare?: boolean;
}
/** One lane for each caller: waiting is light, holding is solid, a transaction is outlined, and an overlap is red. */
export declare function timelineSvg(timeline: Timeline, options: TimelineOptions): string;
/** The same names as in the page, for both colour schemes. */
export declare const LIGHT: {
    wait: string;
    hold: string;
    both: string;
    band: string;
    tx: string;
    key: string;
    commit: string;
    mark: string;
    onMark: string;
    page: "#ffffff";
    ink: "#1c2430";
    soft: "#5a6576";
    line: "#dfe3ea";
};
export declare const DARK: Readonly<Record<keyof typeof LIGHT, string>>;
export declare const TIMELINE_STYLE: string;
//# sourceMappingURL=timeline-svg.d.ts.map