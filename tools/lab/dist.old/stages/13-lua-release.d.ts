import { type Stage } from './stage.js';
export declare const luaRelease: Stage;
//# sourceMappingURL=13-lua-release.d.ts.map