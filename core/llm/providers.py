"""The providers that Handloom knows: the variable with the key, the address of the API, the model to offer.

No key is read here: outside the model host, only whether a variable is set matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider."""

    prefix: str
    """litellm's prefix of its models."""
    label: str
    key_variables: tuple[str, ...] = ()
    """Any one of them is enough; empty if no key is needed, or if that is unknown."""
    base_variables: tuple[str, ...] = ()
    """Variables that set another address for its API."""
    default_model: str = ""
    """The model that is offered if its key is set."""

    def has_key(self, environ: Mapping[str, str]) -> bool:
        """Return whether a variable with its key is set."""
        return any(environ.get(variable) for variable in self.key_variables)

    def is_usable(self, environ: Mapping[str, str]) -> bool:
        """Return whether a variable with its key or its address is set."""
        return any(environ.get(variable) for variable in (*self.key_variables, *self.base_variables))


PROVIDERS: dict[str, Provider] = {  # in the order in which they are listed; clouds that resell are last
    provider.prefix: provider
    for provider in (
        Provider(
            "anthropic",
            "Anthropic",
            ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
            ("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
            "anthropic/claude-sonnet-5-5",
        ),
        Provider("openai", "OpenAI", ("OPENAI_API_KEY",), ("OPENAI_BASE_URL", "OPENAI_API_BASE"), "openai/gpt-5.6"),
        Provider("gemini", "Google Gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), (), "gemini/gemini-3.1-pro-preview"),
        Provider("mistral", "Mistral", ("MISTRAL_API_KEY",), ("MISTRAL_API_BASE",), "mistral/devstral-latest"),
        Provider("deepseek", "DeepSeek", ("DEEPSEEK_API_KEY",), ("DEEPSEEK_API_BASE",), "deepseek/deepseek-v4-pro"),
        Provider("xai", "xAI", ("XAI_API_KEY",), ("XAI_API_BASE",), "xai/grok-4.7"),
        Provider("groq", "Groq", ("GROQ_API_KEY",), (), "groq/openai/gpt-oss-120b"),
        Provider("moonshot", "Moonshot", ("MOONSHOT_API_KEY",), ("MOONSHOT_API_BASE",), "moonshot/kimi-k3"),
        Provider(
            "openrouter",
            "OpenRouter",
            ("OPENROUTER_API_KEY", "OR_API_KEY"),
            ("OPENROUTER_API_BASE",),
            "openrouter/openrouter/auto",
        ),
        Provider("together_ai", "Together AI", ("TOGETHERAI_API_KEY", "TOGETHER_AI_TOKEN", "TOGETHER_API_KEY")),
        Provider("cerebras", "Cerebras", ("CEREBRAS_API_KEY",)),
        Provider("fireworks_ai", "Fireworks AI", ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY", "FIREWORKSAI_API_KEY")),
        Provider("perplexity", "Perplexity", ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY")),
        Provider("cohere", "Cohere", ("COHERE_API_KEY", "CO_API_KEY")),
        Provider("ollama", "Ollama, old interface"),
        Provider("ollama_chat", "Ollama", (), ("OLLAMA_API_BASE", "OLLAMA_HOST")),
        Provider("lm_studio", "LM Studio", (), ("LM_STUDIO_API_BASE",)),
        Provider("hosted_vllm", "vLLM", (), ("HOSTED_VLLM_API_BASE",)),
        Provider("llamafile", "llamafile", (), ("LLAMAFILE_API_BASE",)),
        Provider("litellm_proxy", "LiteLLM proxy", (), ("LITELLM_PROXY_API_BASE",)),
        Provider("github", "GitHub Models", ("GITHUB_API_KEY",)),
        Provider("github_copilot", "GitHub Copilot"),
        Provider("huggingface", "Hugging Face", ("HF_TOKEN", "HUGGINGFACE_API_KEY")),
        Provider("nvidia_nim", "NVIDIA NIM", ("NVIDIA_NIM_API_KEY",), ("NVIDIA_NIM_API_BASE",)),
        Provider("sambanova", "SambaNova", ("SAMBANOVA_API_KEY",)),
        Provider("deepinfra", "DeepInfra", ("DEEPINFRA_API_KEY",)),
        Provider("novita", "Novita", ("NOVITA_API_KEY",)),
        Provider("nebius", "Nebius", ("NEBIUS_API_KEY",)),
        Provider("dashscope", "Alibaba DashScope", ("DASHSCOPE_API_KEY",), ("DASHSCOPE_API_BASE",)),
        Provider("zai", "Z.ai", ("ZAI_API_KEY",)),
        Provider("minimax", "MiniMax", ("MINIMAX_API_KEY",)),
        Provider("vercel_ai_gateway", "Vercel AI Gateway", ("VERCEL_AI_GATEWAY_API_KEY",)),
        Provider(
            "azure",
            "Azure OpenAI",
            ("AZURE_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_AD_TOKEN"),
            ("AZURE_API_BASE",),
        ),
        Provider("azure_ai", "Azure AI", (), ("AZURE_AI_API_BASE",)),
        Provider("bedrock", "Amazon Bedrock"),
        Provider("vertex_ai", "Google Vertex AI"),
        Provider("sagemaker_chat", "Amazon SageMaker"),
        Provider("databricks", "Databricks", (), ("DATABRICKS_API_BASE",)),
        Provider("watsonx", "IBM watsonx"),
    )
}


def provider_of(model: str) -> Provider | None:
    """Return the provider of a model by the prefix of its name, or None."""
    prefix, slash, name = model.partition("/")
    return PROVIDERS.get(prefix) if slash and name else None


def key_variables_of(model: str) -> tuple[str, ...]:
    """Return the variables that may hold the key for a model."""
    provider = provider_of(model)
    return provider.key_variables if provider else ()
