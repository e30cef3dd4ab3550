export {};
//# sourceMappingURL=trial.js.map