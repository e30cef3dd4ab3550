import { withBase } from 'vitepress';
import { h, onMounted, ref } from 'vue';

/** The simulator: a custom element, whose code is loaded only where it stands. `tools/simulate-page` makes it. */
export const Simulator = {
  setup() {
    const place = ref();
    onMounted(() => {
      const script = place.value.ownerDocument.createElement('script');
      script.type = 'module';
      script.src = withBase('/simulator/page.js');
      place.value.append(script);
    });
    return () => h('div', { ref: place }, [h('lock-simulator')]);
  },
};
