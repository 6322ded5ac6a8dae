import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { TranslationBundle } from '@jupyterlab/translation';

/** The application's renderers for untrusted content, including those that are added later. */
export class UntrustedRenderers {
  /**
   * @param _options - The clone's own resolver and sanitizer.
   * @param _factory - A renderer that replaces the application's.
   */
  constructor(
    private readonly _rendermime: IRenderMimeRegistry,
    private readonly _options: IRenderMimeRegistry.ICloneOptions,
    private readonly _factory: IRenderMime.IRendererFactory
  ) {}

  /** Clone of the application's registry; another one after a renderer was added or removed. */
  get current(): IRenderMimeRegistry {
    // The registry emits no signal, but makes this list anew after each change.
    const { mimeTypes } = this._rendermime;
    if (this._clone === null || mimeTypes !== this._mimeTypes) {
      this._mimeTypes = mimeTypes;
      this._clone = this._rendermime.clone(this._options);
      this._clone.addFactory(this._factory);
    }
    return this._clone;
  }

  private _clone: IRenderMimeRegistry | null = null;
  private _mimeTypes: readonly string[] | null = null;
}

/**
 * JupyterLab's sanitizer, which additionally replaces images on other servers by links.
 *
 * Loading an image can leak data of the conversation in its URL, and the content that the model
 * reads can make it write such a URL (prompt injection).
 */
export class UntrustedSanitizer implements IRenderMime.ISanitizer {
  constructor(
    private readonly _sanitizer: IRenderMime.ISanitizer,
    private readonly _trans: TranslationBundle,
    private readonly _allowRemoteImages: () => boolean
  ) {}

  get allowNamedProperties(): boolean {
    return false;
  }

  get allowCommandLinker(): boolean {
    return false;
  }

  getAutolink(): boolean {
    return this._sanitizer.getAutolink?.() ?? true;
  }

  sanitize(dirty: string, options?: IRenderMime.ISanitizerOptions): string {
    const clean = this._sanitizer.sanitize(dirty, options);
    return this._allowRemoteImages()
      ? clean
      : withoutRemoteImages(clean, alt =>
          alt
            ? this._trans.__('Image: %1', alt)
            : this._trans.__('Image on another server')
        );
  }
}

/** Replace each image on another server by a link to it. */
export function withoutRemoteImages(
  html: string,
  label: (alt: string) => string
): string {
  if (!/\b(?:src|srcset|poster)\b|url\(/i.test(html)) {
    return html;
  }
  // A document made by DOMParser does not load resources.
  const { body } = new DOMParser().parseFromString(html, 'text/html');
  body.querySelectorAll('[style]').forEach(element => {
    if (/url\(|\\/i.test(element.getAttribute('style')!)) {
      element.removeAttribute('style');
    }
  });
  // All elements with a source load it: images, media, and image buttons.
  body.querySelectorAll('[src], [srcset], [poster]').forEach(element => {
    element.removeAttribute('srcset');
    element.removeAttribute('poster');
    const src = element.getAttribute('src');
    if (src === null || !isRemote(src)) {
      return;
    }
    const link = document.createElement('a');
    link.href = src;
    link.target = '_blank';
    link.rel = 'noopener noreferrer';
    link.textContent = label(element.getAttribute('alt') ?? '');
    element.replaceWith(link);
  });
  return body.innerHTML;
}

function isRemote(src: string): boolean {
  try {
    const url = new URL(src, document.baseURI);
    return (
      /^(https?|ftp):$/.test(url.protocol) &&
      url.origin !== window.location.origin
    );
  } catch {
    return true;
  }
}
