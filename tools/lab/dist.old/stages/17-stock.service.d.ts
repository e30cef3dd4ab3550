import type { OpenStage, StageTools } from './stage.js';
import 'reflect-metadata';
/** Starts the application that makes up this stage, and calls it as its controllers would. */
export declare function openShop(tools: StageTools): Promise<OpenStage>;
//# sourceMappingURL=17-stock.service.d.ts.map