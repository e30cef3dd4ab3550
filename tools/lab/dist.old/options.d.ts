export interface LabOptions {
    /** The numbers of the stages to run. */
    readonly stages: readonly number[];
    /** The names of the accidents to provoke. */
    readonly accidents: readonly string[];
    readonly onlyList: boolean;
    /** Where the report is written. */
    readonly out: string;
    readonly seed: number;
    /** How many trials run at the same time. */
    readonly atOnce: number;
}
/** @throws Error that names the option, its value and what is allowed */
export declare function readOptions(args: string[]): LabOptions;
//# sourceMappingURL=options.d.ts.map