export declare const REPORT_STYLE: string;
//# sourceMappingURL=report-style.d.ts.map