import DefaultTheme from 'vitepress/theme';
import { Simulator } from './simulator.mjs';

import './site.css';

export default {
  extends: DefaultTheme,
  enhanceApp({ app }) {
    app.component('Simulator', Simulator);
  },
};
