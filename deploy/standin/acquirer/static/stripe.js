// Stands for Stripe.js in tests and in a simulation. It has the calls that the hosted page uses, and
// their shapes. The card is typed into a frame of this script's origin, so the page that includes the
// script cannot read it.
(() => {
  'use strict'
  const origin = new URL(document.currentScript.src).origin

  const fail = (text) => {
    const error = new Error(text)
    error.name = 'IntegrationError'
    throw error
  }

  class Element {
    #type; #options; #settings; #frame; #port; #listeners = new Map(); #answers = new Map(); #next = 1
    constructor(type, options, settings) {
      this.#type = type
      this.#options = options
      this.#settings = settings
    }

    mount(target) {
      const place = typeof target === 'string' ? document.querySelector(target) : target
      if (!place) fail(`The selector you specified (${target}) applies to no DOM elements`)
      const frame = document.createElement('iframe')
      frame.src = `${origin}/frame`
      frame.title = 'Secure payment input frame'
      frame.allow = 'payment *'
      frame.style.border = '0'
      frame.style.width = '100%'
      frame.style.display = 'block'
      frame.addEventListener('load', () => this.#connect(frame))
      place.replaceChildren(frame)
      this.#frame = frame
    }

    unmount() {
      this.#frame?.remove()
      this.#frame = this.#port = undefined
    }

    destroy() { this.unmount() }
    focus() { this.#port?.postMessage({ type: 'focus' }) }
    blur() { this.#port?.postMessage({ type: 'blur' }) }
    update(options) { this.#port?.postMessage({ type: 'update', options }) }

    on(event, listener) {
      this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), listener])
      return this
    }

    off(event, listener) {
      this.#listeners.set(event, (this.#listeners.get(event) ?? []).filter((l) => l !== listener))
      return this
    }

    // ask sends a question to the frame and waits for its answer.
    ask(type) {
      if (!this.#port) fail(`The ${this.#type} element is not mounted`)
      return new Promise((resolve) => {
        const number = this.#next++
        this.#answers.set(number, resolve)
        this.#port.postMessage({ type, number })
      })
    }

    #connect(frame) {
      const channel = new MessageChannel()
      this.#port = channel.port1
      channel.port1.onmessage = ({ data }) => this.#hear(data)
      const { locale, appearance } = this.#settings
      // Only a page of that origin gets the message: a frame that was led elsewhere hears nothing.
      frame.contentWindow.postMessage({ type: 'connect', locale, appearance, options: this.#options }, origin, [channel.port2])
    }

    #hear(data) {
      if (data.type === 'answer') {
        this.#answers.get(data.number)?.(data.answer)
        this.#answers.delete(data.number)
        return
      }
      if (data.type === 'height') {
        this.#frame.style.height = `${data.height}px`
        return
      }
      if (data.type === 'change') this.#settings.changed()
      for (const listener of this.#listeners.get(data.type) ?? []) {
        listener({ elementType: this.#type, ...data.event })
      }
    }
  }

  const newElements = (options = {}) => {
    let element
    let submitted = false
    const settings = { locale: options.locale, appearance: options.appearance, changed: () => { submitted = false } }
    if (options.mode && !(Number.isInteger(options.amount) && /^[a-z]{3}$/.test(options.currency ?? ''))) {
      fail('mode "payment" needs an amount in minor units and a currency in lower case')
    }
    return {
      create(type, elementOptions = {}) {
        if (type !== 'payment' && type !== 'card') fail(`The double has no element of type ${type}`)
        if (element) fail(`Can only create one Element of type ${type}`)
        element = new Element(type, elementOptions, settings)
        return element
      },
      getElement: () => element ?? null,
      update(changes) {
        Object.assign(options, changes)
        if (changes.appearance) element?.update({ appearance: changes.appearance })
      },
      async submit() {
        const error = await element.ask('validate')
        if (error) return { error }
        submitted = true
        return { selectedPaymentMethod: 'card' }
      },
      // Not part of Stripe's interface: createConfirmationToken below needs it.
      token() {
        if (!submitted) fail('elements.submit() must be called before stripe.createConfirmationToken()')
        return element.ask('token')
      },
    }
  }

  window.Stripe = (key) => {
    if (!/^pk_(test|live)_/.test(key)) fail('Invalid API key: it is not a publishable one')
    return {
      elements: newElements,
      createConfirmationToken: ({ elements }) => elements.token(),
      registerAppInfo() {},
    }
  }
  window.Stripe.version = 'double'
})()
