"""Documents for LangChain, and an embedding of their words."""

from embedding import embed
from langchain_core.embeddings import Embeddings

from pcpq.integrations.langchain import PCPQVectorStore


class WordEmbeddings(Embeddings):
    def embed_documents(self, texts):
        return [embed(text).tolist() for text in texts]

    def embed_query(self, text):
        return embed(text).tolist()


TEXTS = ["piano and violin music", "king and queen", "football match", "guitar music", "the royal family"]
METADATA = [
    {"kind": "music", "year": 2020, "tags": ["keys", "strings"], "fine": True},
    {"kind": "people", "year": 1990.5, "tags": []},
    {"kind": "sport", "year": "2020", "note": None},
    {"kind": "music", "year": 2021, "tags": ["strings"], "fine": False, "it's": 'a "quoted" \\ key'},
    {},
]
IDS = ["a", "b", "c", "d", "e"]


def filled_store():
    return PCPQVectorStore.from_texts(TEXTS, WordEmbeddings(), METADATA, ids=IDS)


def ids_of(documents):
    return [document.id for document in documents]
