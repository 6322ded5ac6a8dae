import { imageRendererFactory, RenderedImage } from '@jupyterlab/rendermime';
import { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { TranslationBundle } from '@jupyterlab/translation';

/** JupyterLab's image renderer, with the output's `text/plain` as alternative text. */
export function describedImageFactory(
  trans: TranslationBundle
): IRenderMime.IRendererFactory {
  return {
    ...imageRendererFactory,
    createRenderer: options => new DescribedImage(options, trans)
  };
}

class DescribedImage extends RenderedImage {
  constructor(
    options: IRenderMime.IRendererOptions,
    private readonly _trans: TranslationBundle
  ) {
    super(options);
  }

  async render(model: IRenderMime.IMimeModel): Promise<void> {
    await super.render(model);
    const text = model.data['text/plain'];
    const words = Array.isArray(text) ? text.join('') : text;
    this.node
      .querySelector('img')
      ?.setAttribute('alt', words ? String(words) : this._trans.__('Figure'));
  }
}
